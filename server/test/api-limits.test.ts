// Limits of the management API as clients meet them: requests of one token per minute, and what answers say of it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { startManagementApi, type ApiAnswer } from "./support/management-api.ts";
import { movableClock } from "./support/movable-clock.ts";

function left({ headers }: ApiAnswer): (string | null)[] {
  return ["limit", "remaining", "reset"].map((name) => headers.get(`ratelimit-${name}`));
}

test("each answer says what is left of a token's requests; one too many is 429 with Retry-After, for this token alone", async (t) => {
  const clock = movableClock();
  const api = await startManagementApi(t, { requestsPerMinute: 3, clock });
  const other = await api.issue({ kind: "service_account", role: "member", name: "other" });
  assert.deepEqual(left(await api.call("GET", "/v2/projects")), ["3", "2", "60"]);
  assert.deepEqual(left(await api.call("GET", `/v2/projects/${api.projectId}/apps/none`)), ["3", "1", "60"]);
  assert.deepEqual(left(await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body: {} })), [
    "3",
    "0",
    "60",
  ]);
  const refused = await api.call("GET", "/v2/projects");
  assert.equal(refused.status, 429);
  assert.deepEqual([...left(refused), refused.headers.get("retry-after")], ["3", "0", "60", "60"]);
  assert.match(
    refused.body.message,
    /^This token has sent 3 requests within a minute, which is the limit; try again in 60 s\.$/,
  );
  assert.equal((await api.call("GET", "/v2/projects", { token: other })).status, 200);
  const health = await api.call("GET", "/healthz", { token: null });
  assert.deepEqual([health.status, ...left(health)], [200, null, null, null]);
  clock.moveMs += 60_000;
  assert.deepEqual(left(await api.call("GET", "/v2/projects")), ["3", "2", "60"]);
});
