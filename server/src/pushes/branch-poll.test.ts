// How often git hosts are asked for the newest commits, and for whom together.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AppId, ProjectId } from "#lib/ids.ts";
import { repositoryOf, waitMs } from "./branch-poll.ts";

const pollMs = 60_000;
const hourMs = 3_600_000;

test("a repository is asked at the interval, rarely where a hook works, and ever more rarely while it fails", () => {
  const wait = (failures: number, isHooked = false): number =>
    waitMs({ failures, jitter: 1 }, { pollMs, isHooked });
  assert.deepEqual(
    [0, 1, 2, 6, 100].map((failures) => wait(failures)),
    [pollMs, 120_000, 240_000, hourMs, hourMs],
  );
  assert.deepEqual([wait(0, true), wait(3, true)], [hourMs, hourMs]);
  assert.equal(waitMs({ failures: 0, jitter: 0.9 }, { pollMs, isHooked: false }), 54_000);
  assert.equal(
    waitMs({ failures: 9, jitter: 1 }, { pollMs: 2 * hourMs, isHooked: true }),
    2 * hourMs,
  );
});

test("apps of one repository share a question, but what a credential shows is for its own project", () => {
  const app = (project: string, gitRepo: string, has_credentials = false) => ({
    id: `${project}-app` as AppId,
    project_id: project as ProjectId,
    name: "app",
    request: { gitRepo },
    stopped_at: null,
    auto_deploy_paused_reason: null,
    usual_branch: null,
    shared_paths: null,
    has_credentials,
  });
  assert.equal(repositoryOf(app("p-1", "acme/app")), repositoryOf(app("p-2", "acme/app")));
  assert.equal(
    repositoryOf(app("p-1", "acme/app", true)),
    repositoryOf(app("p-1", "acme/app", true)),
  );
  assert.notEqual(
    repositoryOf(app("p-1", "acme/app", true)),
    repositoryOf(app("p-2", "acme/app", true)),
  );
  assert.notEqual(repositoryOf(app("p-1", "acme/app", true)), repositoryOf(app("p-2", "acme/app")));
  assert.notEqual(repositoryOf(app("p-1", "acme/app")), repositoryOf(app("p-1", "acme/other")));
});
