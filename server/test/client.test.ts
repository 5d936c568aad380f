// The typed client against a running management API: its types are those of the answers, and
// refusals are errors.
import assert from "node:assert/strict";
import { test } from "node:test";
import { answerOf, ApiError, createClient } from "@slipway/client/client.ts";
import type { Paths } from "@slipway/client/paths.ts";
import { startManagementApi } from "#test/support/management-api.ts";

/** A path that is any text would let every mistake pass. */
const isEachPathKnown: string extends keyof Paths ? false : true = true;

test("requests and answers have the types of the routes, and a refusal is thrown with the platform's message", async (t) => {
  assert.ok(isEachPathKnown);
  const { baseUrl, projectId, token } = await startManagementApi(t);
  const client = createClient({ url: `${baseUrl}/`, token });
  const project = { params: { path: { project_id: projectId } } };
  const created = await answerOf(
    client.POST("/v2/projects/{project_id}/apps/git", {
      ...project,
      body: { name: "shop", gitRepo: "acme/shop", compute: "CPU" },
    }),
  );
  assert.equal(created.status, "pending");
  const [app] = await answerOf(client.GET("/v2/projects/{project_id}/apps", project));
  assert.equal(app?.name, "shop");
  const named = { params: { path: { project_id: projectId, app_id: "shop" } } };
  const changed = client.PATCH("/v2/projects/{project_id}/apps/{app_id}", {
    ...named,
    // @ts-expect-error: a text is no number of replicas.
    body: { maxReplicaCount: "many" },
  });
  await assert.rejects(answerOf(changed), (error) => {
    assert.ok(error instanceof ApiError);
    assert.equal(error.status, 400);
    assert.match(error.message, /^maxReplicaCount is "many"/);
    return true;
  });
  const withoutRepository = client.POST("/v2/projects/{project_id}/apps/git", {
    ...project,
    // @ts-expect-error: a repository is required.
    body: { name: "other" },
  });
  await assert.rejects(answerOf(withoutRepository), { status: 400 });
  const logs = client.GET("/v2/projects/{project_id}/apps/{app_id}/logs", {
    params: { ...named.params, query: { pageSize: 3 } },
  });
  assert.deepEqual((await answerOf(logs)).logs, []);
});
