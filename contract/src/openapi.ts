// Generates the OpenAPI 3.1 document from the table of routes. `tools/openapi.ts` writes it to
// contract/openapi.json, and the server serves it.
import { z } from "zod";
import { faultAnswer } from "./answers.ts";
import { bodyExample, example } from "./examples.ts";
import { allowedText, fieldSchema, numberForm, tomlKey, type Field } from "./field.ts";
import { takesKey, type BodyShape, type Route } from "./route.ts";
import { groupOf, groups } from "./groups.ts";
import { patternLengths } from "./pattern-lengths.ts";
import { routeIds, routes } from "./routes.ts";

type Json = { [name: string]: unknown };

const aboutAll = [
  "Apps, builds, logs, runs, webhooks, secrets, credentials and coupons of projects. Every refusal is a JSON object with a message.",
  "Lists without a `nextToken` among their parameters are complete; `listBuilds` has the latest 100. The others come in pages of at most `pageSize` (in the audit log: `limit`): send the `nextToken` of an answer, of logs its `nextPageToken`, as `nextToken` to go on; the last page has none. Tokens of pages are opaque.",
  "Ids are no secrets. Those of builds, releases, runs and deliveries are UUIDs that begin with the time (version 7), so that they sort by when they were made; older ones may be of version 4.",
  "Answers to a valid token say what is left of its requests in this minute: `RateLimit-Limit`, `RateLimit-Remaining`, and in seconds `RateLimit-Reset`.",
];

/** The whole document; `serverUrl` is the URL where it is served. */
export function openApiDocument(serverUrl = "/"): Json {
  const paths: Record<string, Json> = {};
  for (const id of routeIds) {
    const route: Route = routes[id];
    paths[route.path] = {
      ...paths[route.path],
      [route.method.toLowerCase()]: operation(id, route),
    };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Slipway management API",
      version: "1.0.0",
      description: aboutAll.join("\n\n"),
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: serverUrl }],
    tags: groups.map((name) => ({ name })),
    paths,
    components: {
      schemas: { Fault: jsonSchema(faultAnswer) },
      responses: Object.fromEntries(
        Object.entries(refusals).map(([name, { about }]) => [name, refusal(about)]),
      ),
      securitySchemes: { token: { type: "http", scheme: "bearer", bearerFormat: "JWT" } },
    },
  };
}

function operation(id: string, route: Route): Json {
  const answer = { description: route.about, ...answerContent(route) };
  return {
    operationId: id,
    tags: [groupOf(route)],
    summary: route.about.split(/(?<=\.)\s/)[0],
    description: [route.about, ...accessNotes(route)].join("\n\n"),
    ...(route.access === "public" ? { security: [] } : { security: [{ token: [] }] }),
    parameters: [
      ...pathParameters(route.path),
      ...queryParameters(route.query ?? {}),
      ...keyParameter(route),
    ],
    ...(route.takesBytes === true || route.takesStream === true
      ? { requestBody: { required: true, content: { "*/*": { schema: binary } } } }
      : {}),
    ...(route.body === undefined
      ? {}
      : { requestBody: requestBody(id, route.body, route.takesForm === true) }),
    responses: {
      [route.status]: answer,
      ...(route.hasRanges === true
        ? { 206: { description: "The part that Range asks for.", ...answerContent(route) } }
        : {}),
      ...usualRefusals(route),
      ...ownRefusals(route),
      default: { $ref: "#/components/responses/Refusal" },
    },
  };
}

const binary = { type: "string", format: "binary" };

/** A redirect has no body. */
function answerContent(route: Route): Json {
  const { status, isBytes, answer, otherTypes = [], events } = route;
  if (status === 302)
    return {
      headers: {
        Location: { required: true, schema: { type: "string", format: "uri-reference" } },
      },
    };
  // A WebSocket has no body, hence a field of our own.
  if (status === 101) return { "x-last-message": jsonSchema(answer) };
  const types = Object.fromEntries(
    otherTypes.map((type) => [type, { schema: { type: "string" } }]),
  );
  if (isBytes === true) return { content: otherTypes.length === 0 ? anyBytes(route) : types };
  const schema = jsonSchema(answer);
  const stream =
    events === undefined ? {} : { "text/event-stream": eventStream(jsonSchema(events)) };
  return {
    content: { "application/json": { schema, example: example(schema) }, ...types, ...stream },
  };
}

function anyBytes({ isUsuallyJson }: Route): Json {
  const bytes = { "*/*": { schema: binary } };
  if (isUsuallyJson !== true) return bytes;
  const schema = { description: "What the function returned." };
  return { "application/json": { schema, example: { answer: 42 } }, ...bytes };
}

/** OpenAPI 3.1 has no words for the data of events, hence a field of our own. */
function eventStream(data: Json): Json {
  const description =
    "Server-sent events. The data of each is JSON of the schema in `x-event-data`.";
  const text = `data: ${JSON.stringify(example(data))}\n\n`;
  return { schema: { type: "string", description }, example: text, "x-event-data": data };
}

/**
 * The refusals that follow from a route's row; those of its use case have the status 409 or 422.
 */
const refusals: Readonly<
  Record<string, { status?: number; about: string; isOf?: (route: Route) => boolean }>
> = {
  BadRequest: {
    status: 400,
    about: "The request is malformed, or a value is not allowed; the message names it.",
  },
  Unauthorized: {
    status: 401,
    about: "No token was sent, or it is no longer valid.",
    isOf: needsProof,
  },
  Forbidden: {
    status: 403,
    about: "The token is valid but does not allow this.",
    isOf: needsProof,
  },
  NotFound: {
    status: 404,
    about: "There is no such thing, or it is not the caller's.",
    isOf: (route) => route.path.includes("{") || takesBody(route),
  },
  TooLarge: { status: 413, about: "The body is larger than the limit.", isOf: takesBody },
  UnsupportedMediaType: {
    status: 415,
    about: "The body is not declared as application/json.",
    isOf: takesBody,
  },
  TooManyRequests: {
    status: 429,
    about: "A rate limit is reached; retry after the seconds in `Retry-After`.",
  },
  Unavailable: {
    status: 503,
    about: "The platform is stopping, or a part that it needs does not answer.",
  },
  Refusal: { about: "Another refusal or failure; docs/errors.md lists all." },
};

/** A token, or what a body holds: a password, the link of an invitation. */
function needsProof(route: Route): boolean {
  return route.access !== "public" || takesBody(route);
}

function takesBody({ body, takesBytes, takesStream }: Route): boolean {
  return body !== undefined || takesBytes === true || takesStream === true;
}

function usualRefusals(route: Route): Json {
  const found = Object.entries(refusals).filter(
    ([, { status, isOf }]) => status !== undefined && isOf?.(route) !== false,
  );
  const entries = found.map(([name, { status }]) => [
    status,
    { $ref: `#/components/responses/${name}` },
  ]);
  return Object.fromEntries(entries) as Json;
}

function refusal(description: string): Json {
  const schema = { $ref: "#/components/schemas/Fault" };
  return { description, content: { "application/json": { schema, example: { message: "…" } } } };
}

function ownRefusals({ refusals: own = {} }: Route): Json {
  const entries = Object.entries(own).map(([status, shape]) => {
    const schema = jsonSchema(shape);
    return [
      status,
      {
        description: "A refusal.",
        content: { "application/json": { schema, example: example(schema) } },
      },
    ];
  });
  return Object.fromEntries(entries) as Json;
}

function accessNotes(route: Route): string[] {
  const access = accessNote(route);
  return route.audit === null
    ? [access]
    : [access, `Recorded in the audit log as \`${route.audit}\`.`];
}

function accessNote({ access }: Route): string {
  switch (access) {
    case "public":
      return "Needs no token.";
    case "any":
      return "Needs a valid token.";
    case "person":
      return "Needs the access token of a person.";
    case "platform.manage":
      return `Needs the permission \`${access}\`, which operators have.`;
    default:
      return `Needs the permission \`${access}\` in the project.`;
  }
}

function pathParameters(path: string): Json[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
}

function keyParameter(route: Route): Json[] {
  if (!takesKey(route)) return [];
  const description =
    "Sending the request again with the same key, within 24 hours, gets the first answer again (with `Idempotency-Replayed: true`) and changes nothing. With another body 422, while the first is handled 409. A refused request frees its key. If the platform was cut off during the first request, the answer is 409: check whether it had its effect. Stored answers are encrypted.";
  const schema = withLengths({ type: "string", pattern: "^[\\x21-\\x7e]{1,255}$" });
  return [{ name: "Idempotency-Key", in: "header", required: false, description, schema }];
}

function queryParameters(query: Readonly<Record<string, Field>>): Json[] {
  return Object.entries(query).map(([name, field]) => ({
    name,
    in: "query",
    required: false,
    description: fieldText(field),
    schema: fieldJson(field),
  }));
}

function requestBody(id: string, body: BodyShape, takesForm: boolean): Json {
  const schema =
    body.kind === "map"
      ? {
          type: "object",
          additionalProperties: fieldJson(body.value),
          propertyNames: withLengths({ pattern: body.name.source }),
        }
      : {
          type: "object",
          additionalProperties: false,
          required: body.required,
          properties: Object.fromEntries(
            Object.entries(body.fields).map(([name, field]) => [
              name,
              { description: fieldText(field), ...bodyField(field, name, body) },
            ]),
          ),
        };
  const isRequired = body.kind === "map" || body.required.length > 0;
  const content = { schema, example: bodyExample(id, schema) };
  const asForm = takesForm ? { "application/x-www-form-urlencoded": content } : {};
  return { required: isRequired, content: { "application/json": content, ...asForm } };
}

function fieldText(field: Field): string {
  const notes = [field.about, `Allowed: ${allowedText(field)}.`];
  if (field.defaultAbout !== undefined) notes.push(`Default: ${field.defaultAbout}.`);
  if (field.change !== undefined) notes.push(`Change: ${field.change}.`);
  if (field.toml !== null) notes.push(`In TOML: \`${tomlKey(field.toml)}\`.`);
  return notes.join(" ");
}

/**
 * Null counts as absent; in a change it removes what was set, so there the default says nothing.
 */
function bodyField(field: Field, name: string, body: BodyShape & { kind: "fields" }): Json {
  const { default: byDefault, ...schema } = fieldJson(field);
  const known = byDefault === undefined || body.areNullable === true ? {} : { default: byDefault };
  return body.required.includes(name)
    ? { ...schema, ...known }
    : { anyOf: [schema, { type: "null" }], ...known };
}

function fieldJson(field: Field): Json {
  const number = jsonSchema(fieldSchema(field));
  const schema =
    "isTextAllowed" in field
      ? { anyOf: [number, withLengths({ type: "string", pattern: numberForm.source })] }
      : number;
  const isFixed = field.default !== null && field.defaultAbout === undefined;
  return {
    ...schema,
    ...(isFixed ? { default: field.default } : {}),
    ...("isSecret" in field ? { writeOnly: true } : {}),
  };
}

function jsonSchema(schema: z.ZodType): Json {
  const { $schema: _, ...json } = z.toJSONSchema(schema, {
    override: ({ jsonSchema: made }) => Object.assign(made, withLengths(made)),
  });
  return json;
}

/** A schema that has a pattern also says how long the text may be. */
function withLengths<T extends { readonly pattern?: string | undefined }>(schema: T): T {
  return schema.pattern === undefined ? schema : { ...patternLengths(schema.pattern), ...schema };
}
