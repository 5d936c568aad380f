// Every route whose body the OpenAPI document requires, asked without one and with JSON that is no
// object of its fields: each is refused in words that name what is missing, and nothing changes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { openApiDocument } from "@slipway/contract/openapi.ts";
import { startManagementApi, type Json } from "./support/management-api.ts";
import { makePerson } from "./support/person.ts";

const nothing = "00000000-0000-4000-8000-000000000000";
const jsonHeader = { "content-type": "application/json" };

type Operation = {
  readonly method: string;
  readonly path: string;
  /** The names of fields that must be there; null: any names are allowed. */
  readonly required: readonly string[] | null;
};

/** Operations that need a JSON body, from the document as clients read it. */
function operationsWithBody(): Operation[] {
  const document: Json = openApiDocument();
  const found: Operation[] = [];
  for (const [path, methods] of Object.entries<Json>(document.paths)) {
    for (const [method, operation] of Object.entries<Json>(methods)) {
      const { requestBody } = operation;
      const schema = requestBody?.content["application/json"]?.schema;
      if (requestBody?.required !== true || schema === undefined) continue;
      found.push({ method: method.toUpperCase(), path, required: schema.required ?? null });
    }
  }
  return found;
}

/** Some routes are for people, and projects are created by them. */
function ownToken(path: string, ofProject: string, ofPerson: string): string {
  return path.startsWith("/v2/auth/") || path === "/v2/projects" ? ofPerson : ofProject;
}

test("a required body that is missing, null, a list or another type is refused and changes nothing", async (t) => {
  const api = await startManagementApi(t);
  const project = `/v2/projects/${api.projectId}`;
  const created = await api.call("POST", `${project}/apps/git`, {
    body: { name: "my-app", gitRepo: "acme/shop" },
  });
  assert.equal(created.status, 201);
  const operator = await api.issue({ kind: "operator" });
  const email = "ada@example.com";
  const password = "correct horse battery";
  await makePerson(api.db, { email, name: "Ada", password });
  const signedIn = await api.call("POST", "/v2/auth/sign-in", { body: { email, password } });
  const person: string = signedIn.body.accessToken;
  const secrets = { KEPT: "value" };
  const scopes = [`${project}/secrets`, `${project}/apps/my-app/secrets`];
  for (const scope of scopes) {
    assert.equal((await api.call("PATCH", scope, { body: secrets })).status, 200);
  }
  const operations = operationsWithBody();
  assert.ok(operations.length > 25, `only ${operations.length} operations need a body`);
  for (const { method, path, required } of operations) {
    const filled = path
      .replace("{project_id}", api.projectId)
      .replace("{app_id}", "my-app")
      .replace("{volume_id}", "default")
      .replace("{host}", "github.com")
      .replaceAll(/\{\w+\}/g, nothing);
    const token = path.startsWith("/v2/operator/") ? operator : ownToken(path, api.token, person);
    const wrong = [
      { text: "", headers: jsonHeader },
      { text: "", headers: {} },
      { body: null },
      { body: [] },
      { body: [{}] },
      { body: "text" },
      { body: 7 },
      { body: true },
      ...(required === null ? [] : [{ body: {} }]),
    ];
    for (const options of wrong) {
      const answer = await api.call(method, filled, { ...options, token });
      const what = `${method} ${path} with ${JSON.stringify(options)}: ${JSON.stringify(answer.body)}`;
      assert.equal(answer.status, 400, what);
      assert.match(answer.headers.get("content-type") ?? "", /json/);
      for (const name of required?.slice(0, 1) ?? [])
        assert.ok(answer.body.message.includes(name), what);
    }
  }
  for (const scope of scopes) {
    assert.deepEqual((await api.call("GET", scope)).body, secrets, `${scope} kept its secrets`);
  }
  assert.equal((await api.call("PATCH", scopes[0] ?? "", { body: {} })).status, 200);
  assert.deepEqual(
    (await api.call("GET", scopes[0] ?? "")).body,
    {},
    "an empty object still removes all",
  );
});
