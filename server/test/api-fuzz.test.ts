// Requests that are drawn from the published OpenAPI document, valid and not: whatever is sent, the
// answer is one that the document has, no failure, and nothing is accepted that the document
// forbids.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import addFormats from "ajv-formats";
import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { newReleaseId } from "#lib/ids.ts";
import { addPerson } from "./support/access-callers.ts";
import { countOf } from "./support/drawn-cases.ts";
import { unseenSeed } from "./support/drawn-seed.ts";
import { startManagementApi, type ApiUnderTest, type Json } from "./support/management-api.ts";
import { allowedBy, besides } from "./support/schema-arbitrary.ts";

/** Requests for each operation of the document. */
const requests = countOf({ what: "requests for each operation", complete: 30, short: 5 });
const seed = Number(process.env["SLIPWAY_TEST_SEED"] ?? unseenSeed());

const ajv = new Ajv2020({ strict: false });
(addFormats as unknown as (to: Ajv2020) => void)(ajv);
ajv.addFormat("cidrv4", /^\d+\.\d+\.\d+\.\d+\/\d+$/);
ajv.addFormat("cidrv6", /^[0-9a-f:.]+\/\d+$/i);

type Operation = { readonly method: string; readonly path: string; readonly spec: Json };

type Sent = {
  readonly operation: Operation;
  readonly path: string;
  readonly text: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** Why the document does not allow it; null: it does. */
  readonly forbidden: string | null;
};

/** What these delete is what others ask about. */
const lastOnes = ["leaveProject", "deleteApp", "deleteProject"];

/** Bodies of requests that are not what the document says. */
const oddBodies: readonly (readonly [text: string, type: string])[] = [
  ['{"name":', "application/json"],
  ["{} {}", "application/json"],
  ["\ufeff{}", "application/json"],
  ["{'a':1}", "application/json"],
  ["NaN", "application/json"],
  ["{}", "text/plain"],
  ["a=b", "application/x-www-form-urlencoded"],
  ["<a/>", "application/xml"],
  ["{}", "application/json-patch+json"],
  ["--x\r\n\r\n--x--", "multipart/form-data; boundary=x"],
  ["{}", "not a type"],
];

const oddParts = [
  "%00",
  "%ff",
  "%2f",
  "x".repeat(299),
  "%F0%9F%92%A5",
  "'",
  "a%20b",
  "-1",
  "~2",
  "*",
  "{x}",
];

test("whatever the document lets a client send, or does not, is answered as the document says", async (t) => {
  t.diagnostic(`seed ${seed}: repeat with SLIPWAY_TEST_SEED=${seed}`);
  const document: Json = JSON.parse(
    await readFile(join(import.meta.dirname, "../../contract/openapi.json"), "utf8"),
  );
  const stage = await setUp(t);
  const all = Object.entries<Json>(document.paths).flatMap(([path, methods]) =>
    Object.entries<Json>(methods).map(([method, spec]) => ({
      method: method.toUpperCase(),
      path,
      spec,
    })),
  );
  const operations = all.toSorted(
    (one, other) =>
      lastOnes.indexOf(one.spec.operationId) - lastOnes.indexOf(other.spec.operationId),
  );
  const found: string[] = [];
  let count = 0;
  for (const operation of operations) {
    const property = fc.asyncProperty(requestTo(operation, stage), async (sent) => {
      count += 1;
      await check(sent, stage);
    });
    const result = await fc.check(property, { seed, numRuns: requests, endOnFailure: true });
    if (result.failed) found.push(`${operation.spec.operationId}: ${String(result.errorInstance)}`);
  }
  t.diagnostic(`${count} requests`);
  assert.ok(count > operations.length, "each operation had its turn");
  assert.deepEqual(found, []);
});

type Stage = {
  readonly api: ApiUnderTest;
  readonly parts: Json;
  readonly tokenOf: (spec: Json) => string | null;
};

/** A project with an app to ask about, and a token for each kind of caller. */
async function setUp(t: TestContext): Promise<Stage> {
  const api = await startManagementApi(t, { settings: { deploysPerMinute: 100_000 } });
  const body = { name: "my-app", gitRepo: "acme/shop" };
  const { body: created } = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, {
    body,
  });
  const operator = await api.issue({ kind: "operator" });
  const person = (
    await addPerson(api, { projectId: api.projectId, role: "owner" })
  ).accessToken.reveal();
  return {
    api,
    parts: {
      project_id: api.projectId,
      app_id: created.appId,
      build_id: created.buildId,
      host: "github.com",
      code: "WELCOME",
      month: "2026-01",
      release: "1",
    },
    tokenOf: ({ security, description }) => {
      if (security.length === 0) return null;
      if (/platform\.manage/.test(description)) return operator;
      return /of a person/.test(description) ? person : api.token;
    },
  };
}

function requestTo(operation: Operation, { parts }: Stage): fc.Arbitrary<Sent> {
  const { spec, path } = operation;
  const content: Json = spec.requestBody?.content ?? {};
  const schema: Json = content["application/json"]?.schema;
  const filled = fc
    .array(fc.option(fc.constantFrom(...oddParts), { freq: 12, nil: null }), {
      minLength: 5,
      maxLength: 5,
    })
    .map((odd) => {
      let at = 0;
      // Ids of the project are sent, so that some requests find what they ask about.
      return path.replaceAll(
        /\{(\w+)\}/g,
        (_, name: string) => odd[at++] ?? parts[name] ?? newReleaseId(),
      );
    });
  return fc
    .tuple(filled, queryOf(spec), bodyOf(spec, schema), keyOf())
    .map(([way, query, body, key]) => ({
      operation,
      path: way + query.text,
      ...body,
      headers: { ...body.headers, ...(key === null ? {} : { "idempotency-key": key }) },
      forbidden:
        body.forbidden ??
        query.forbidden ??
        (key === null || isKey(spec, key) ? null : `the key ${key}`),
    }));
}

/** An Idempotency-Key, also for operations that take none; few, so that some are sent again. */
function keyOf(): fc.Arbitrary<string | null> {
  return fc.option(fc.constantFrom("one", "two", "three", "a b", "", "x".repeat(256), "\u00e9"));
}

function isKey({ parameters }: Json, key: string): boolean {
  const parameter = parameters.find((one: Json) => one.in === "header");
  return parameter === undefined || ajv.validate(parameter.schema, key);
}

type Part = { readonly text: string; readonly forbidden: string | null };

function queryOf({ parameters }: Json): fc.Arbitrary<Part> {
  const known = parameters.filter((one: Json) => one.in === "query");
  const pair = (one: Json) =>
    fc
      .oneof(
        { weight: 3, arbitrary: allowedBy(one.schema, one.name) },
        {
          weight: 1,
          arbitrary: fc.constantFrom<unknown>(
            "\0",
            "x".repeat(5_000),
            -1,
            1.5,
            "é",
            "null",
            "[]",
            1e21,
            "0x10",
          ),
        },
      )
      .map((value): readonly [Json, unknown] => [one, value]);
  const chosen =
    known.length === 0 ? fc.constant([]) : fc.array(fc.oneof(...known.map(pair)), { maxLength: 3 });
  const odd = fc.constantFrom(
    "",
    "",
    "",
    "&unknown=1",
    "&__proto__=1",
    "&%ff=%ff",
    "&pageSize=1&pageSize=2",
    "&=",
  );
  return fc
    .tuple(chosen as fc.Arbitrary<(readonly [Json, unknown])[]>, odd)
    .map(([pairs, rest]) => {
      const text = `?${pairs.map(([one, value]) => `${one.name}=${encodeURIComponent(String(value).toWellFormed())}`).join("&")}${rest}`;
      const wrong = pairs.find(
        ([one, value]) => !isAllowedText(one.schema, String(value).toWellFormed()),
      );
      // The same value twice counts as one.
      const given = [...new URLSearchParams(text)];
      const isRepeated = known.some((one: Json) => {
        const values = given.filter(([name]) => name === one.name).map(([, value]) => value);
        return new Set(values).size > 1;
      });
      let forbidden: string | null = null;
      if (isRepeated) forbidden = `a parameter twice: ${text}`;
      else if (wrong !== undefined) forbidden = `${wrong[0].name} in ${text}`;
      return { text: text === "?" ? "" : text, forbidden };
    });
}

/** A query has only texts, and an empty one counts as none. */
function isAllowedText(schema: Json, text: string): boolean {
  const numbers = /^-?\d+(?:\.\d+)?$/.test(text) ? [Number(text)] : [];
  const values = [
    text,
    ...numbers,
    ...(text === "true" || text === "false" ? [text === "true"] : []),
  ];
  return text === "" || values.some((value) => ajv.validate(schema, value));
}

type Body = {
  readonly text: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly forbidden: string | null;
};

function bodyOf({ requestBody }: Json, schema: Json): fc.Arbitrary<Body> {
  if (schema === undefined) {
    const isTaken = requestBody !== undefined;
    const headers = { "content-type": "application/octet-stream" };
    return fc.constantFrom<Body>(
      { text: undefined, headers: {}, forbidden: null },
      ...(isTaken ? [{ text: "PK\u0003\u0004", headers, forbidden: null }] : []),
    );
  }
  const json = (value: unknown): Body => ({
    text: JSON.stringify(value),
    headers: { "content-type": "application/json" },
    forbidden: ajv.validate(schema, JSON.parse(JSON.stringify(value)))
      ? null
      : `${ajv.errorsText()}: ${JSON.stringify(value).slice(0, 300)}`,
  });
  const types = Object.keys(requestBody.content);
  const odd = oddBodies
    .filter(([, type]) => type === "application/json" || !types.includes(type))
    .map(([text, type]) => ({
      text,
      headers: { "content-type": type },
      forbidden: `${text} as ${type}`,
    }));
  const none = {
    text: undefined,
    headers: {},
    forbidden: requestBody.required === true ? "no body" : null,
  };
  return fc.oneof(
    { weight: 4, arbitrary: allowedBy(schema).map(json) },
    { weight: 4, arbitrary: besides(schema).map(json) },
    { weight: 1, arbitrary: fc.constantFrom<Body>(...odd, none) },
  );
}

async function check(sent: Sent, { api, tokenOf }: Stage): Promise<void> {
  const { operation, path, text, headers, forbidden } = sent;
  const token = tokenOf(operation.spec);
  const options = { headers, token, ...(text === undefined ? {} : { text }) };
  // `fetch` compares status, type and body with the document; see checked-answers.ts.
  const answer = await api.call(operation.method, path, options);
  const what = `${operation.method} ${path.slice(0, 300)} ${text?.slice(0, 300) ?? ""} ${JSON.stringify(headers)}: ${answer.status} ${JSON.stringify(answer.body).slice(0, 300)}`;
  assert.ok(
    answer.status < 500 || (answer.status === 503 && typeof answer.body.message === "string"),
    what,
  );
  if (answer.status >= 400) assert.equal(typeof answer.body.message, "string", what);
  const isNamed = [...Object.keys(operation.spec.responses), "409", "422"].includes(
    String(answer.status),
  );
  assert.ok(isNamed, `${what}: a status that the document does not name`);
  if (forbidden !== null)
    assert.ok(answer.status >= 400, `${what}: accepted, but the document forbids ${forbidden}`);
}
