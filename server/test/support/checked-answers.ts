// Validates every answer of the management API that a test fetches against the OpenAPI document:
// status, content type, body. Importing this file is enough; a call whose answer the document does
// not describe fails.
import assert from "node:assert/strict";
import addFormats from "ajv-formats";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { isOlderClient } from "@slipway/contract/older-clients.ts";
import { openApiDocument } from "@slipway/contract/openapi.ts";

type Content = Readonly<Record<string, { readonly schema: object }>>;
type Operation = { readonly responses: Readonly<Record<string, { readonly content?: Content }>> };
type Document = { readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>> };

/** The content of refusals, which many operations share. */
const faultContent: Content = { "application/json": { schema: {} } };

/** The content of contract/openapi.json; api-documents.test.ts compares the two. */
const document = openApiDocument() as Document;
const documentId = "openapi.json";
const ajv = new Ajv2020({ strict: false, allErrors: true });
// The package is CommonJS: its default export is the function itself.
(addFormats as unknown as (to: Ajv2020) => void)(ajv);
// Zod's name for a text with a prefix; the pattern beside it defines the prefix.
ajv.addFormat("starts_with", true);
ajv.addSchema(document, documentId);

/** Paths with fewer parameters first: `/apps/git` is not the app named git. */
const paths = Object.entries(document.paths)
  .map(([path, operations]) => ({ path, operations, form: formOf(path) }))
  .toSorted((one, other) => one.path.split("{").length - other.path.split("{").length);

/** One answer, for the checks and their messages. */
type Seen = {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly contentType: string | null;
  /** Empty when it is not JSON. */
  readonly text: string;
};

const fetchUnchecked = globalThis.fetch;

globalThis.fetch = async (...given) => {
  const response = await fetchUnchecked(...given);
  const [input, init] = given;
  const method = (init?.method ?? (input instanceof Request ? input.method : "GET")).toUpperCase();
  const path = new URL(response.url).pathname.replaceAll(/\/{2,}/g, "/");
  if (method === "HEAD" || method === "OPTIONS" || operationsOf(path) === undefined)
    return response;
  const contentType = response.headers.get("content-type");
  const text =
    contentType?.startsWith("application/json") === true ? await response.clone().text() : "";
  const operation = operationsOf(path)?.operations[method.toLowerCase()];
  const status = documentedStatus(response.status, new Headers(init?.headers), operation);
  checkAnswer({ method, path, status, contentType, text });
  return response;
};

/** Clients that know only 200 get it in place of a documented 201. */
function documentedStatus(
  status: number,
  headers: Headers,
  operation: Operation | undefined,
): number {
  const isReplaced =
    status === 200 && operation !== undefined && !Object.hasOwn(operation.responses, "200");
  return isReplaced && isOlderClient(headers.get("x-cli-version") ?? undefined) ? 201 : status;
}

/**
 * Throws when the document does not describe the answer; ignores paths that it does not contain.
 */
export function checkAnswer({ method, path, status, contentType, text }: Seen): void {
  const found = operationsOf(path);
  if (found === undefined) return;
  const operation = found.operations[method.toLowerCase()];
  const what = `${method} ${path} was answered ${status} ${contentType ?? "without content type"}`;
  if (operation === undefined) {
    assert.ok(
      status >= 400,
      `${what}, but ${found.path} has no such method in the OpenAPI document`,
    );
    return checkBody(`/components/schemas/Fault`, text, what);
  }
  const name = Object.hasOwn(operation.responses, String(status)) ? String(status) : "default";
  assert.ok(
    name !== "default" || status >= 400,
    `${what}, a success that the OpenAPI document does not have`,
  );
  const response = operation.responses[name];
  const isUsual = response !== undefined && "$ref" in response;
  const { content = {} } = isUsual ? { content: faultContent } : (response ?? {});
  if (Object.keys(content).length === 0)
    return assert.equal(contentType, null, `${what}, which has no body`);
  const type = [contentType?.split(";")[0] ?? "", "*/*"].find((one) => Object.hasOwn(content, one));
  assert.ok(
    type !== undefined,
    `${what}, but the OpenAPI document has ${Object.keys(content).join(", ")}`,
  );
  // Where any type may come, the bytes are an app's, which may call anything JSON.
  if (type !== "application/json" || Object.hasOwn(content, "*/*")) return;
  if (isUsual) return checkBody(`/components/schemas/Fault`, text, what);
  const steps = [
    "paths",
    found.path,
    method.toLowerCase(),
    "responses",
    name,
    "content",
    type,
    "schema",
  ];
  checkBody(
    steps
      .map((step) => `/${encodeURIComponent(step.replaceAll("~", "~0").replaceAll("/", "~1"))}`)
      .join(""),
    text,
    what,
  );
}

function checkBody(pointer: string, text: string, what: string): void {
  const validate: ValidateFunction | undefined = ajv.getSchema(`${documentId}#${pointer}`);
  assert.ok(validate !== undefined, `the OpenAPI document has ${pointer}`);
  if (validate(JSON.parse(text))) return;
  assert.fail(
    `${what}, which is not what the OpenAPI document says: ${ajv.errorsText(validate.errors)}: ${text.slice(0, 2_000)}`,
  );
}

function operationsOf(path: string): (typeof paths)[number] | undefined {
  return paths.find(({ form }) => form.test(path));
}

function formOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(".", "\\.").replaceAll(/\{\w+\}/g, "[^/]+")}/?$`);
}
