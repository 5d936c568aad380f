// What is written about the API is true: the page of errors, the OpenAPI document, the table of
// fields.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import addFormats from "ajv-formats";
import { Ajv2020 } from "ajv/dist/2020.js";
import { appFields, fieldNames } from "@slipway/contract/app-fields.ts";
import { fieldsPage } from "@slipway/contract/fields-page.ts";
import { openApiDocument } from "@slipway/contract/openapi.ts";
import type { Route } from "@slipway/contract/route.ts";
import { routeIds, routes } from "@slipway/contract/routes.ts";
import { faultTable } from "#lib/fault.ts";
import type { Json } from "./support/management-api.ts";

const root = join(import.meta.dirname, "../..");

test("docs/errors.md describes every fault, and no other, with its status", async () => {
  const text = await readFile(join(root, "docs/errors.md"), "utf8");
  const rows = [...text.matchAll(/^\| `(\w+)` \| (\d+) \| (.+) \| (.+) \|$/gm)];
  const described = rows.map(([, code, status]) => [code, Number(status)]);
  assert.deepEqual(
    described,
    Object.entries(faultTable).map(([code, { status }]) => [code, status]),
  );
  for (const [, code, , when, what] of rows) {
    assert.match(when ?? "", /\.$/, `${code}: when`);
    assert.match(what ?? "", /\.$/, `${code}: what to do`);
  }
});

test("contract/openapi.json is what the routes say", async () => {
  const found = await readFile(join(root, "contract/openapi.json"), "utf8");
  assert.equal(
    found,
    `${JSON.stringify(openApiDocument(), null, 2)}\n`,
    "run: node_modules/.bin/node tools/openapi.ts",
  );
});

test("the OpenAPI document is one, by the schema of OpenAPI 3.1", async () => {
  const { valid, errors } = await new Validator().validate(openApiDocument());
  assert.ok(valid, JSON.stringify(errors, null, 1)?.slice(0, 4_000));
});

test("every JSON body and answer of the OpenAPI document has an example, which is what its schema allows", () => {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  (addFormats as unknown as (to: Ajv2020) => void)(ajv);
  for (const format of ["starts_with", "cidrv4", "cidrv6"]) ajv.addFormat(format, true);
  let count = 0;
  const wrong: string[] = [];
  for (const operation of Object.values<Json>(openApiDocument()["paths"] as Json).flatMap(
    Object.values<Json>,
  )) {
    const contents = [operation.requestBody, ...Object.values<Json>(operation.responses)].map(
      (one) => one?.content ?? {},
    );
    for (const [type, { schema, example }] of contents.flatMap(Object.entries<Json>)) {
      if (schema.$ref !== undefined || type !== "application/json") continue;
      count += 1;
      if (!ajv.validate(schema, example))
        wrong.push(`${operation.operationId}: ${ajv.errorsText()}`);
    }
  }
  assert.deepEqual(wrong, []);
  assert.ok(count > 150, `${count}`);
});

test("docs/app-settings.md is what the table of fields says", async () => {
  const found = await readFile(join(root, "docs/app-settings.md"), "utf8");
  assert.equal(found, fieldsPage(), "run: node_modules/.bin/node tools/openapi.ts");
});

test("the OpenAPI document has every route, every field with its sentence, and resolves its references", () => {
  const document: Json = openApiDocument();
  for (const id of routeIds) {
    const route: Route = routes[id];
    const operation = document.paths[route.path][route.method.toLowerCase()];
    assert.equal(operation.operationId, id);
    const type = route.isBytes === true ? (route.otherTypes?.[0] ?? "*/*") : "application/json";
    const answer = operation.responses[route.status];
    const ofSocket: unknown = answer["x-last-message"];
    const redirected: unknown = answer.headers?.Location.schema;
    const schema: unknown =
      { 101: ofSocket, 302: redirected }[Number(route.status)] ?? answer.content?.[type].schema;
    assert.ok(schema, id);
    const named = [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    const described = operation.parameters
      .filter((one: Json) => one.in === "path")
      .map((one: Json) => one.name);
    assert.deepEqual(described, named);
  }
  const { properties } =
    document.paths[routes.createGitApp.path].post.requestBody.content["application/json"].schema;
  assert.deepEqual(Object.keys(properties), fieldNames);
  for (const name of fieldNames) {
    assert.ok(properties[name].description.startsWith(appFields[name].about), name);
  }
  const references = JSON.stringify(document).match(/"\$ref":"[^"]+"/g) ?? [];
  for (const reference of new Set(references)) {
    const [, kind, name] = /"#\/components\/(\w+)\/(\w+)"$/.exec(reference) ?? [];
    assert.ok(document.components[kind ?? ""]?.[name ?? ""], reference);
  }
});
