// One operation of the API reference: what it takes, what it answers, how to call it with curl.
import { group, make, table } from "./elements.js";
import { tryForm } from "./docs-try.js";

/** All about an operation. `tokenOf` gives the token that the reader has pasted, or "". */
export function details({ method, path, spec }, api, tokenOf) {
  const parts = spec.description.split("\n\n").map((text) => prose(text));
  if (spec.parameters.length > 0) {
    const rows = spec.parameters.map((one) =>
      fieldRow(one.name, { ...one.schema, description: one.description }, one.in),
    );
    parts.push(make("h3", "Parameters"), fields("Parameters", rows));
  }
  parts.push(...bodyOf(spec), ...answersOf(spec, api));
  parts.push(
    make("h3", "With curl"),
    code(curlOf({ method, path, spec })),
    tryForm({ method, path, spec }, tokenOf),
  );
  return group("div", parts);
}

function bodyOf({ requestBody }) {
  if (requestBody === undefined) return [];
  const types = Object.keys(requestBody.content);
  const { schema, example } = Object.values(requestBody.content)[0];
  const head = make("h3", `Body${requestBody.required ? "" : " (may be left out)"}`);
  const kind = make("p", `As ${types.join(" or ").replace("*/*", "bytes of any content type")}.`);
  if (schema.format === "binary") return [head, kind];
  const names = Object.entries(
    schema.properties ?? { "any name": schema.additionalProperties ?? {} },
  );
  const rows = names.map(([name, one]) =>
    fieldRow(name, one, schema.required?.includes(name) ? "required" : ""),
  );
  return [
    head,
    kind,
    fields("Fields of the body", rows),
    example === undefined ? "" : code(json(example)),
  ];
}

function answersOf({ responses }, api) {
  const own = Object.entries(responses).filter(([, one]) => one.$ref === undefined);
  const refusals = Object.entries(responses).filter(([, one]) => one.$ref !== undefined);
  const parts = own.flatMap(([status, { content = {} }]) => {
    const types = Object.entries(content).map(([type, one]) => answerOf(type, one));
    return [
      make("h3", `Answer ${status}`),
      ...(types.length === 0 ? [make("p", "A redirect without a body.")] : types.flat()),
    ];
  });
  const rows = refusals.map(([status, { $ref }]) => [
    status,
    prose(api.components.responses[$ref.split("/").at(-1)].description),
  ]);
  const says = 'Each is JSON with a "message" that says what is wrong and what is allowed.';
  return [
    ...parts,
    make("h3", "Errors"),
    make("p", says),
    fields("Errors", rows, ["Status", "When"]),
  ];
}

function answerOf(type, { schema, example }) {
  const parts = [
    make(
      "p",
      type === "*/*" ? "Bytes of any content type." : `As ${type}. ${schema.description ?? ""}`,
    ),
  ];
  if (example !== undefined)
    parts.push(code(typeof example === "string" ? example : json(example)));
  if (type !== "application/json") return parts;
  return [...parts, group("details", [make("summary", "Schema"), code(json(schema))])];
}

function fieldRow(name, schema, note) {
  const about = schema.description ?? "";
  return [
    group("div", [make("code", name), make("div", note, { class: "muted" })]),
    make("code", typeOf(schema)),
    prose(about),
  ];
}

function fields(caption, rows, heads = ["Name", "Type", "Description"]) {
  const element = table(caption, heads, rows);
  element.classList.add("fields", heads.length < 3 ? "short" : "long");
  return element;
}

/** The type of a schema in a few words. */
export function typeOf({ anyOf, enum: choices, const: only, type, items, format }) {
  // Null counts as absent, which goes without saying.
  const options = anyOf?.filter((one) => one.type !== "null");
  if (options !== undefined) return [...new Set(options.map((one) => typeOf(one)))].join(" or ");
  if (choices !== undefined) return choices.map((one) => JSON.stringify(one)).join(" or ");
  if (only !== undefined) return JSON.stringify(only);
  if (type === "array") return `list of ${typeOf(items ?? {})}`;
  return [[type ?? "anything"].flat().join(" or "), format === undefined ? "" : `(${format})`]
    .join(" ")
    .trim();
}

/** A text whose parts between backticks are code. */
export function prose(text) {
  const parts = text.split("`").map((part, index) => (index % 2 === 1 ? make("code", part) : part));
  return group("p", parts);
}

function code(text) {
  return make("pre", text, { class: "log", tabindex: "0" });
}

function json(value) {
  return JSON.stringify(value, null, 2);
}

function curlOf({ method, path, spec }) {
  const lines = [`curl -X ${method.toUpperCase()} '${location.origin}${path}'`];
  if (spec.security.length > 0) lines.push(`-H "Authorization: Bearer $TOKEN"`);
  const [type, body] = Object.entries(spec.requestBody?.content ?? {})[0] ?? [];
  if (type === "application/json") {
    lines.push(
      "-H 'Content-Type: application/json'",
      `-d '${JSON.stringify(body.example).replaceAll("'", String.raw`'\''`)}'`,
    );
  } else if (type !== undefined) lines.push("--data-binary @file");
  return lines.join(" \\\n  ");
}
