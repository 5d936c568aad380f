// Draws JSON values by a JSON schema of the OpenAPI document, and values next to it: of other
// types, beyond the bounds, with fields too many or too few. Whether a drawn value really violates
// the schema is for a validator to say.
import fc from "fast-check";
import { example } from "@slipway/contract/examples.ts";
import type { Json } from "./management-api.ts";

type Drawn = fc.Arbitrary<unknown>;

const strange = [
  ..."\0 \u0001 \ud800 \u202e \ufeff é 💥 ' \" \\ % ; -- ../ ${x} {{x}} <script>".split(" "),
  "",
  " ",
  "null",
  "true",
  "-1",
  "0",
  "1e400",
  "9".repeat(400),
  "a".repeat(70_000),
  "\r\nX-A: b",
];

/** Any JSON that has nothing to do with a schema. */
const anything: Drawn = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    0,
    -1,
    1.5,
    2 ** 53,
    -(2 ** 31),
    1e308,
    [],
    {},
    [null],
    [[[]]],
    { a: {} },
  ),
  fc.constantFrom(...strange),
  fc.jsonValue({ maxDepth: 2 }),
);

/** Values that the schema allows, as far as it is simple; `name`: of the property. */
export function allowedBy(schema: Json, name = ""): Drawn {
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...(schema.enum as unknown[]));
  const options: readonly Json[] | undefined = schema.anyOf ?? schema.oneOf;
  if (options !== undefined) return fc.oneof(...options.map((one) => allowedBy(one, name)));
  switch (schema.type) {
    case "null":
      return fc.constant(null);
    case "boolean":
      return fc.boolean();
    case "integer":
    case "number":
      return numberBy(schema);
    case "array":
      return fc.array(allowedBy(schema.items ?? {}, name), {
        minLength: schema.minItems ?? 0,
        maxLength: Math.min(schema.maxItems ?? 3, 3),
      });
    case "object":
      return objectBy(schema);
    case "string":
      return textBy(schema, name);
    default:
      return anything;
  }
}

/** Values like those, of which one part at least is drawn without regard to the schema. */
export function besides(schema: Json): Drawn {
  if (schema.type !== "object") return anything;
  const names = Object.keys(schema.properties ?? {});
  const key = fc.oneof(
    fc.constantFrom(...(names.length === 0 ? ["KEY"] : names)),
    fc.constantFrom("x", "__proto__", "", "id"),
  );
  const changed = fc.tuple(
    objectBy(schema),
    fc.array(fc.tuple(key, fc.option(anything, { nil: undefined })), {
      minLength: 1,
      maxLength: 2,
    }),
  );
  return fc.oneof(
    { weight: 5, arbitrary: changed.map(([value, changes]) => changeOf(value as Json, changes)) },
    { weight: 1, arbitrary: anything },
  );
}

/** Undefined removes a field. */
function changeOf(value: Json, changes: readonly (readonly [string, unknown])[]): unknown {
  const fields = new Map<string, unknown>(Object.entries(value));
  for (const [name, one] of changes)
    if (one === undefined) fields.delete(name);
    else fields.set(name, one);
  return Object.fromEntries(fields);
}

function objectBy({ properties = {}, required = [], additionalProperties }: Json): Drawn {
  if (typeof additionalProperties === "object") {
    return fc.dictionary(fc.constantFrom("KEY", "OTHER", "a.b"), allowedBy(additionalProperties), {
      maxKeys: 2,
    });
  }
  const fields = Object.entries<Json>(properties);
  const optional = fields.map(([name]) => name).filter((name) => !required.includes(name));
  const some = fc.subarray(optional, { maxLength: Math.min(optional.length, 4) });
  return some.chain((names) =>
    fc.record(
      Object.fromEntries(
        fields
          .filter(([name]) => required.includes(name) || names.includes(name))
          .map(([name, one]) => [name, allowedBy(one, name)]),
      ),
    ),
  );
}

function numberBy({ type, minimum, maximum, exclusiveMinimum }: Json): Drawn {
  const min = Math.max(
    minimum ?? -(2 ** 31),
    exclusiveMinimum === undefined ? -(2 ** 31) : exclusiveMinimum + 1,
  );
  const max = Math.max(min, Math.min(maximum ?? 2 ** 31, 2 ** 40));
  const edges = fc.constantFrom(min, max);
  return type === "integer"
    ? fc.oneof(edges, fc.integer({ min, max }))
    : fc.oneof(edges, fc.double({ min, max, noNaN: true }));
}

/** Patterns that look ahead cannot be drawn from: they give their example. */
function textBy(schema: Json, name: string): Drawn {
  const known = fc.constant(example(schema, name));
  if (
    schema.pattern === undefined ||
    /\(\?[!=<]/.test(schema.pattern) ||
    schema.format !== undefined
  )
    return known;
  return fc.oneof(known, fc.stringMatching(new RegExp(schema.pattern), { size: "small" }));
}
