// The verdicts on pushes: from what the host says, and from what git says of the branch.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  areTouched,
  isFolderTouched,
  judgeApp,
  judgeHead,
  judgePush,
  type BranchHead,
  type PushedApp,
} from "./judge.ts";
import type { RefUpdate } from "./push-bodies.ts";

const hosts = {
  defaultUrl: "https://git.example.com/{owner}/{repo}.git",
  otherUrls: [
    "https://gitlab.com/{owner}/{repo}.git",
    "https://tools.example/gitlab/{owner}/{repo}.git",
  ],
};
const app: PushedApp = {
  gitRepo: "acme/app",
  gitBranch: "release",
  gitPath: "apps/chat",
  sharedPaths: [],
  gitAutoDeploy: true,
  pausedReason: null,
  isStopped: false,
};
const commit = "da1560886d4f094c3e6c9ef40349f7d38b5d27d7";
const moved: RefUpdate = {
  ref: "refs/heads/release",
  before: "a".repeat(40),
  after: commit,
  message: "m",
  author: "Ada",
  files: [],
  isComplete: false,
};
const head: BranchHead = { commit, message: "Fix it", isSeen: false, isTouched: true };

function reasonOf(updates: readonly RefUpdate[], changes: Partial<PushedApp> = {}): string {
  const { verdict, reason } = judgePush({ ...app, ...changes }, { event: "push", updates }, hosts);
  return `${verdict}: ${reason}`;
}

test("only the app's own branch waits for git, by its exact name", () => {
  assert.equal(reasonOf([moved]), "waiting: the branch is about to be read");
  const other = (ref: string): RefUpdate => ({ ...moved, ref });
  assert.equal(reasonOf([other("refs/heads/main")]), "ignored: branch main is not release");
  assert.equal(reasonOf([other("refs/heads/Release")]), "ignored: branch Release is not release");
  assert.equal(
    reasonOf([other("refs/heads/x/release")]),
    "ignored: branch x/release is not release",
  );
  assert.equal(reasonOf([other("refs/tags/release")]), "ignored: tag release is not a branch");
  assert.equal(reasonOf([{ ...moved, after: null }]), "ignored: branch release was deleted");
  assert.equal(reasonOf([moved], { gitAutoDeploy: false }), "ignored: gitAutoDeploy is false");
  assert.equal(reasonOf([moved], { pausedReason: "A rollback." }), "ignored: paused: A rollback.");
  assert.equal(
    reasonOf([moved], { isStopped: true }),
    "waiting: the app is stopped; this waits for its start",
  );
  assert.equal(
    judgePush(app, { event: "ping", updates: [] }, hosts).reason,
    "the event ping is not a push",
  );
  const several = judgePush(app, { event: "push", updates: [other("refs/tags/v1"), moved] }, hosts);
  assert.equal(several.update, moved);
});

test("a push of another repository is not one of the app's, however that is written", () => {
  const judge = (repository: string | null, gitRepo = "acme/app") =>
    judgePush({ ...app, gitRepo }, { event: "push", updates: [moved], repository }, hosts);
  assert.deepEqual(judge("other/app"), {
    verdict: "ignored",
    reason: "other/app is not acme/app",
    update: moved,
    isOwn: false,
    isForeign: true,
  });
  for (const gitRepo of [
    "acme/app",
    "Acme/App",
    "https://git.example.com/acme/app.git/",
    "git@git.example.com:acme/app.git",
  ])
    assert.equal(judge("acme/app", gitRepo).isOwn, true, gitRepo);
  for (const gitRepo of [
    "big-acme/app",
    "acme/app2",
    "group/acme/app",
    "https://gitlab.com/group/acme/app",
  ])
    assert.equal(judge("acme/app", gitRepo).isOwn, false, gitRepo);
  assert.equal(judge("group/acme/app", "https://gitlab.com/group/acme/app").isOwn, true);
  assert.equal(
    judge("acme/app", "https://tools.example/gitlab/acme/app").isOwn,
    true,
    "the host is below a path",
  );
  assert.equal(judge("groups/acme/app").isOwn, true, "SLIPWAY_GIT_URL may name the group");
  assert.equal(judge(null).isOwn, true, "a host that does not say");
});

test("no ref but the app's own branch ever deploys", () => {
  const names = fc.oneof(
    fc.string(),
    fc.constantFrom("release", "heads/release", "release/", "RELEASE", "releas"),
  );
  fc.assert(
    fc.property(
      names,
      fc.constantFrom("refs/heads/", "refs/tags/", "refs/", ""),
      (name, prefix) => {
        const { verdict } = judgePush(
          app,
          { event: "push", updates: [{ ...moved, ref: prefix + name }] },
          hosts,
        );
        assert.equal(verdict === "waiting", prefix + name === "refs/heads/release");
      },
    ),
  );
});

test("a file below the app's folder is enough, a complete list without one too, and otherwise git is asked", () => {
  const touched = (
    files: readonly string[],
    isComplete = false,
    gitPath = "apps/chat",
  ): boolean | null =>
    isFolderTouched({ gitPath, sharedPaths: [] }, { ...moved, files, isComplete });
  assert.equal(touched(["docs/a.md", "apps/chat/main.py"]), true);
  assert.equal(touched(["apps/chat"]), true);
  assert.equal(touched(["apps/chatty/main.py", "apps/chat.py", "x/apps/chat/a"]), null);
  assert.equal(touched(["apps/chatty/main.py"], true), false);
  assert.equal(touched([], true, ""), true);
});

test("what the folder's links lead to counts as the folder, and while nobody knows that, no list proves anything", () => {
  const touched = (
    files: readonly string[],
    sharedPaths: readonly string[] | null,
  ): boolean | null =>
    isFolderTouched({ gitPath: "apps/chat", sharedPaths }, { ...moved, files, isComplete: true });
  assert.equal(touched(["libs/common/one.py"], ["libs/common", "VERSION"]), true);
  assert.equal(touched(["VERSION"], ["libs/common", "VERSION"]), true);
  assert.equal(touched(["libs/commoner/one.py"], ["libs/common", "VERSION"]), false);
  assert.equal(touched(["libs/commoner/one.py"], null), null);
  assert.equal(
    judgeHead({ ...app, sharedPaths: ["libs/common"] }, { ...head, isTouched: false }).reason,
    "nothing below apps/chat, or where its links lead (libs/common), changed",
  );
});

test("the newest commit is built unless it is known, marked, elsewhere, or deployments are off", () => {
  const reason = (changes: Partial<BranchHead>): string => {
    const judged = judgeHead(app, { ...head, ...changes });
    return `${judged.verdict}: ${judged.reason}`;
  };
  assert.equal(reason({}), "built: a build of da15608 was started");
  assert.equal(reason({ isTouched: null }), "built: a build of da15608 was started");
  assert.equal(reason({ isTouched: false }), "ignored: nothing below apps/chat changed");
  assert.equal(
    reason({ message: "Docs\n\n[Skip Deploy]" }),
    "ignored: the message of da15608 contains [skip deploy]",
  );
  assert.equal(
    reason({ isSeen: true }),
    "ignored: da15608 is still the newest commit of release and was handled before",
  );
  assert.equal(judgeApp(app), null);
  assert.equal(judgeApp({ ...app, gitAutoDeploy: false })?.reason, "gitAutoDeploy is false");
  assert.equal(judgeApp({ ...app, pausedReason: "A rollback." })?.reason, "paused: A rollback.");
});

test("one push that touches the folder is enough, and only a single one from the known commit proves that none does", () => {
  const push = (is_touched: boolean | null, before_sha = commit) => ({ before_sha, is_touched });
  assert.equal(areTouched([push(false), push(true), push(null)], commit), true);
  assert.equal(areTouched([push(false)], commit), false);
  assert.equal(areTouched([push(false, "b".repeat(40))], commit), null);
  assert.equal(areTouched([push(false), push(false)], commit), null);
  assert.equal(areTouched([push(null)], commit), null);
  assert.equal(areTouched([push(false)], null), null);
});
