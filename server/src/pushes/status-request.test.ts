// Statuses of commits as the public API of each host takes them.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AppId } from "#lib/ids.ts";
import { Secret } from "#lib/secret.ts";
import { statusRequest, type StatusState } from "./status-request.ts";

const commit = "da1560886d4f094c3e6c9ef40349f7d38b5d27d7";
const appId = "p-1a2b3c4d-chat" as AppId;

function request(
  kind: Parameters<typeof statusRequest>[0],
  host: string,
  given: {
    state?: StatusState;
    username?: string;
    protocol?: "http" | "https" | "ssh";
    description?: string;
    repository?: string;
    below?: string;
  } = {},
) {
  const {
    state = "pending",
    username = null,
    protocol = "https",
    description = "Build 2 has started",
  } = given;
  const { repository = "acme/app", below = "" } = given;
  const receiver = {
    source: { protocol, host, below },
    credential: { username, secret: new Secret("t0k") },
  };
  const status = {
    appId,
    repository,
    commit,
    state,
    url: "https://slipway.example/b/1",
    description,
  };
  const { url, headers, body } = statusRequest(kind, receiver, status);
  return { url, headers, body: JSON.parse(body.toString()) as Record<string, string> };
}

test("each host gets its own path, token and fields", () => {
  const github = request("github", "github.com");
  assert.equal(github.url, `https://api.github.com/repos/acme/app/statuses/${commit}`);
  assert.equal(github.headers["authorization"], "Bearer t0k");
  assert.deepEqual(github.body, {
    state: "pending",
    target_url: "https://slipway.example/b/1",
    description: "Build 2 has started",
    context: "slipway/p-1a2b3c4d-chat",
  });
  assert.equal(
    request("github", "git.corp.example").url,
    `https://git.corp.example/api/v3/repos/acme/app/statuses/${commit}`,
  );
  const gitea = request("gitea", "127.0.0.1:3000", { protocol: "http" });
  assert.equal(gitea.url, `http://127.0.0.1:3000/api/v1/repos/acme/app/statuses/${commit}`);
  assert.equal(gitea.headers["authorization"], "token t0k");
  assert.deepEqual(gitea.body, github.body);
  const gitlab = request("gitlab", "gitlab.com");
  assert.equal(gitlab.url, `https://gitlab.com/api/v4/projects/acme%2Fapp/statuses/${commit}`);
  assert.equal(gitlab.headers["private-token"], "t0k");
  assert.deepEqual(Object.keys(gitlab.body), ["state", "target_url", "description", "name"]);
  const cloud = request("bitbucket", "bitbucket.org");
  assert.equal(
    cloud.url,
    `https://api.bitbucket.org/2.0/repositories/acme/app/commit/${commit}/statuses/build`,
  );
  assert.equal(cloud.headers["authorization"], "Bearer t0k");
  assert.equal(cloud.body["key"], "1a2b3c4d-chat");
  const password = request("bitbucket", "bitbucket.org", { username: "ada" });
  assert.equal(
    password.headers["authorization"],
    `Basic ${Buffer.from("ada:t0k").toString("base64")}`,
  );
  const below = request("gitlab", "tools.example", { below: "/gitlab" });
  assert.equal(
    below.url,
    `https://tools.example/gitlab/api/v4/projects/acme%2Fapp/statuses/${commit}`,
  );
  const own = request("gitea", "git.corp.example:7999", { protocol: "ssh", below: "/srv/git" });
  assert.equal(own.url, `https://git.corp.example/api/v1/repos/acme/app/statuses/${commit}`);
});

test("an API knows a repository without the .git that its address may end with", () => {
  const { url } = request("github", "github.com", { repository: "acme/app.git" });
  assert.equal(url, `https://api.github.com/repos/acme/app/statuses/${commit}`);
});

test("each state has the host's own word, and a description is one short line", () => {
  const states = ["pending", "success", "failure", "cancelled"] as const;
  const words = (
    kind: "github" | "gitea" | "gitlab" | "bitbucket",
    host: string,
  ): (string | undefined)[] => states.map((state) => request(kind, host, { state }).body["state"]);
  assert.deepEqual(words("github", "github.com"), ["pending", "success", "failure", "error"]);
  assert.deepEqual(words("gitea", "codeberg.org"), ["pending", "success", "failure", "error"]);
  assert.deepEqual(words("gitlab", "gitlab.com"), ["pending", "success", "failed", "canceled"]);
  assert.deepEqual(words("bitbucket", "bitbucket.org"), [
    "INPROGRESS",
    "SUCCESSFUL",
    "FAILED",
    "STOPPED",
  ]);
  const { body } = request("github", "github.com", {
    description: `${"x".repeat(200)}\nsecond line`,
  });
  assert.equal(body["description"], "x".repeat(140));
});
