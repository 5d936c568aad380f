// Pushes to a monorepo whose apps share a folder by links: what changes the shared folder is built,
// what changes others is not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { startGitServer } from "./support/git-server.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { until } from "./support/until.ts";

type Delivery = { readonly verdict: string; readonly reason: string; readonly commit: string };
const patience = { deadlineMs: 60_000 };

test("a push that changes only what the app's links lead to is built, and one beside it is not", async (t) => {
  const git = await startGitServer(t);
  await git.createRepo("acme", "app", {
    "apps/api/main.py": "from common.words import word\n\ndef run():\n    return word\n",
    "apps/api/common": { link: "../../libs/common" },
    "libs/common/words.py": 'word = "one"\n',
    "docs/a.md": "a",
  });
  const settings = { SLIPWAY_GIT_URL: git.urlTemplate, SLIPWAY_GIT_POLL_SECONDS: "1" };
  const platform = await startPlatformOnTestServer(t, settings);
  const projectPath = `/v2/projects/${platform.bootstrap.projectId}/apps`;
  const body = { name: "api", gitRepo: "acme/app", gitPath: "apps/api" };
  const made = await platform.api("POST", `${projectPath}/git`, body);
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const path = `${projectPath}/api`;
  const isAnswered = async (word: string): Promise<boolean> => {
    const answer = (await (await platform.call("api", "run", {})).json()) as {
      readonly result?: unknown;
    };
    return answer.result === word;
  };
  await until("the app answers", () => isAnswered("one"), patience);

  const beside = await git.push("acme", "app", { "docs/a.md": "b" });
  const newest = async (): Promise<Delivery | undefined> =>
    (await platform.api("GET", `${path}/git-deliveries`)).body.items[0];
  const isJudged = async (commit: string): Promise<boolean> => {
    const delivery = await newest();
    return delivery?.commit === commit && delivery.verdict !== "waiting";
  };
  await until("the push beside it is judged", () => isJudged(beside), patience);
  const ignored = await newest();
  const reason = "nothing below apps/api, or where its links lead (libs/common), changed";
  assert.deepEqual([ignored?.verdict, ignored?.reason], ["ignored", reason]);

  const shared = await git.push("acme", "app", { "libs/common/words.py": 'word = "two"\n' });
  await until("the shared folder's push is judged", () => isJudged(shared), patience);
  assert.equal((await newest())?.verdict, "built");
  await until("the app answers anew", () => isAnswered("two"), patience);
});
