// Settings as texts of inputs, as values of the API, and whether the contract allows them. Pure.
import { appFields, fieldNames, type FieldName } from "@slipway/contract/app-fields.ts";
import { allowedText, fieldSchema, type Field } from "@slipway/contract/field.ts";

/** The texts of inputs by field; one that is empty or absent is not sent. */
export type Texts = Readonly<Partial<Record<FieldName, string>>>;

/** The field's row. */
export function rowOf(name: FieldName): Field {
  return appFields[name];
}

/** The text as the API takes it. */
export function valueOf(name: FieldName, text: string): unknown {
  const { kind } = rowOf(name);
  if (kind === "number" || kind === "integer")
    return Number.isFinite(Number(text)) ? Number(text) : text;
  if (kind === "boolean") return booleanOf(text);
  // A list with one element is split into words as in a shell.
  if (name === "entrypoint") return [text];
  return kind === "list" ? listOf(text) : text;
}

/** True or false. Another text stays as it is: the contract says what is wrong with it. */
function booleanOf(text: string): boolean | string {
  if (text === "true") return true;
  return text === "false" ? false : text;
}

/** The parts between commas. */
export function listOf(text: string): string[] {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

/** Why the contract does not allow the value; "": it does, or there is none. */
export function problemOf(name: FieldName, text: string): string {
  // The platform reads more forms of addresses than it stores.
  if (text === "" || name === "gitRepo") return "";
  return problemOfValue(name, valueOf(name, text));
}

/** The same of a value, such as one of a TOML file. */
export function problemOfValue(name: FieldName, value: unknown): string {
  const row = rowOf(name);
  return fieldSchema(row).safeParse(value).success ? "" : `${name} must be ${allowedText(row)}.`;
}

/** The fields of a request. */
export function bodyOf(texts: Texts): Record<string, unknown> {
  return Object.fromEntries(
    fieldNames.flatMap((name) => {
      const text = texts[name] ?? "";
      return text === "" ? [] : [[name, valueOf(name, text)]];
    }),
  );
}

/** What counts where nothing is set, in words. */
export function defaultText(name: FieldName): string {
  const row = rowOf(name);
  if (row.defaultAbout !== undefined) return row.defaultAbout;
  const { default: value } = row;
  if (value === null || value === "" || (Array.isArray(value) && value.length === 0)) return "none";
  return Array.isArray(value) ? value.join(", ") : String(value);
}

/** The field that a refusal is about: its first word, or the one whose TOML key that is. */
export function fieldOfMessage(message: string): FieldName | null {
  const [first = ""] = message.split(" ", 1);
  return fieldNames.find((name) => name === first) ?? null;
}
