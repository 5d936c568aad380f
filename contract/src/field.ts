// The row types of the tables of fields, one per kind, and the validation of a value against its
// row.
import { z } from "zod";

/**
 * What a change of an app's field takes. `live`: nothing, it is in effect within a second.
 * `replica`: new replicas, so a new release of the same artifact. `build`: a new build. `fixed`: it
 * cannot be changed.
 */
export type FieldChange = "live" | "replica" | "build" | "fixed";

type Common = {
  /**
   * The key in a TOML file, below the table `cerebrium`, or below `slipway` where it begins with
   * that; null: none.
   */
  readonly toml: string | null;
  /** What the field is for, in one sentence. */
  readonly about: string;
  /** Describes the default when it is computed, or when absence has a meaning. */
  readonly defaultAbout?: string;
  /** What a change of the field causes; only fields of apps have it. */
  readonly change?: FieldChange;
};

type TextField = Common & {
  readonly kind: "text";
  readonly form: RegExp;
  /** The allowed values, in words that complete "must be …". */
  readonly allowed: string;
  readonly default: string | null;
  /** Must be sent, or be set in TOML if the field has a TOML key. */
  readonly isRequired?: true;
  /** The value is never shown, not even in a refusal. */
  readonly isSecret?: true;
};

type NumberField = Common & {
  readonly kind: "number" | "integer";
  /** In a JSON body the number may also come as a text, such as "0.5". */
  readonly isTextAllowed?: true;
  readonly min?: number;
  /** The exclusive lower bound of the number. */
  readonly above?: number;
  readonly max?: number;
  readonly default: number | null;
};

type BooleanField = Common & { readonly kind: "boolean"; readonly default: boolean };
type ChoiceField = Common & {
  readonly kind: "choice";
  readonly choices: readonly string[];
  readonly default: string | null;
};
/** A list; `isSingleAllowed`: a single bare value is accepted as a list of one. */
type ListField = Common & {
  readonly kind: "list";
  /** Refusals do not show what was given. */
  readonly isSecret?: true;
  readonly choices?: readonly string[];
  /** Set when the elements are ranges of addresses. */
  readonly areRanges?: true;
  /** The form of its elements, and what to call them. */
  readonly elementForm?: RegExp;
  readonly elementsAre?: string;
  readonly lengthMin: number;
  readonly lengthMax: number;
  readonly isSingleAllowed: boolean;
  readonly isUnique: boolean;
  readonly default: readonly string[] | null;
};

/** A list of distinct whole numbers. */
type IntegersField = Common & {
  readonly kind: "integers";
  readonly min: number;
  readonly max: number;
  readonly lengthMax: number;
  readonly default: readonly number[];
};

/** A list of objects. */
type ObjectsField = Common & {
  readonly kind: "objects";
  readonly element: z.ZodType;
  readonly lengthMax: number;
  /** The allowed values, in words that complete "must be …". */
  readonly allowed: string;
  readonly default: null;
};

export type Field =
  | TextField
  | NumberField
  | BooleanField
  | ChoiceField
  | ListField
  | IntegersField
  | ObjectsField;

/** The type of a checked value of a field. */
export type ValueOf<F extends Field> = F extends { kind: "number" | "integer" }
  ? number
  : F extends { kind: "boolean" }
    ? boolean
    : F extends { kind: "choice"; choices: readonly (infer Choice)[] }
      ? Choice
      : F extends { kind: "list"; choices: readonly (infer Choice)[] }
        ? readonly Choice[]
        : F extends { kind: "list" }
          ? readonly string[]
          : F extends { kind: "integers" }
            ? readonly number[]
            : F extends { kind: "objects"; element: infer Element extends z.ZodType }
              ? readonly z.output<Element>[]
              : string;

/** A field's key in a TOML file, from the root. */
export function tomlKey(toml: string): string {
  return toml.startsWith("slipway.") ? toml : `cerebrium.${toml}`;
}

/** A number as a text, where `isTextAllowed` says so. */
export const numberForm = /^\d{1,9}(?:\.\d{1,9})?$/;

const schemas = new WeakMap<Field, z.ZodType>();

/** The zod schema of one field: types, ranges, patterns and choices. Created once. */
export function fieldSchema(field: Field): z.ZodType {
  const known = schemas.get(field);
  if (known !== undefined) return known;
  const schema = makeSchema(field);
  schemas.set(field, schema);
  return schema;
}

function makeSchema(field: Field): z.ZodType {
  switch (field.kind) {
    case "text":
      return z
        .string()
        .regex(field.form)
        .refine((text) => text.isWellFormed());
    case "boolean":
      return z.boolean();
    case "choice":
      return z.enum(field.choices);
    case "list":
      return listSchema(field);
    case "integers":
      return integersSchema(field);
    case "objects":
      return z.array(z.unknown()).max(field.lengthMax).pipe(z.array(field.element));
    default:
      return numberSchema(field);
  }
}

/** Describes the allowed values; completes "must be …". */
export function allowedText(field: Field): string {
  switch (field.kind) {
    case "text":
    case "objects":
      return field.allowed;
    case "boolean":
      return "true or false";
    case "choice":
      return `one of ${field.choices.join(", ")}`;
    case "list":
      return allowedList(field);
    case "integers":
      return `a list of at most ${field.lengthMax} whole numbers from ${field.min} to ${field.max}, none of them twice`;
    default:
      return allowedNumber(field);
  }
}

function numberSchema(field: NumberField): z.ZodType {
  let schema = field.kind === "integer" ? z.int() : z.number();
  if (field.min !== undefined) schema = schema.gte(field.min);
  if (field.above !== undefined) schema = schema.gt(field.above);
  if (field.max !== undefined) schema = schema.lte(field.max);
  return schema;
}

function allowedNumber(field: NumberField): string {
  const what = field.kind === "integer" ? "a whole number" : "a number";
  if (field.above !== undefined) return `${what} above ${field.above}`;
  return field.max === undefined
    ? `${what}, at least ${field.min}`
    : `${what} from ${field.min} to ${field.max}`;
}

function listSchema(field: ListField): z.ZodType {
  const element = elementSchema(field);
  let list = z.array(element).min(field.lengthMin).max(field.lengthMax);
  if (field.isUnique) list = list.refine((values) => new Set(values).size === values.length);
  // The length is checked first: a list of a million invalid elements would give a million errors.
  const bounded = z.array(z.unknown()).max(field.lengthMax).pipe(list);
  return field.isSingleAllowed ? z.union([element, bounded]) : bounded;
}

function elementSchema({ choices, areRanges, elementForm }: ListField): z.ZodType {
  if (choices !== undefined) return z.enum(choices);
  if (elementForm !== undefined) return z.string().regex(elementForm);
  return areRanges === true
    ? z.union([z.cidrv4(), z.cidrv6()])
    : z.string().max(elementLengthMax).refine(isPlainText);
}

function integersSchema({ min, max, lengthMax }: IntegersField): z.ZodType {
  const numbers = z
    .array(z.int().gte(min).lte(max))
    .refine((values) => new Set(values).size === values.length);
  return z.array(z.unknown()).max(lengthMax).pipe(numbers);
}

function allowedList(field: ListField): string {
  const max = field.lengthMax;
  if (field.areRanges === true)
    return `a list of at most ${max} ranges of addresses such as 203.0.113.0/24`;
  if (field.elementsAre !== undefined) return `a list of at most ${max} ${field.elementsAre}`;
  if (field.choices === undefined) return `a list of at most ${max} strings`;
  const once = field.isUnique ? ", none of them twice" : "";
  return `one of ${field.choices.join(", ")}, or a list of ${field.lengthMin} to ${max} of these${once}`;
}

const elementLengthMax = 10_000;

function isPlainText(text: string): boolean {
  return text.isWellFormed() && !text.includes("\0");
}
