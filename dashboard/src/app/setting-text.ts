// A setting as the text of its input, and the text as the API takes it. Pure.
import type { Field } from "@slipway/contract/field.ts";
import { listOf } from "#new-app/setting-values.ts";

/** The text of the input as the API takes it; null: the default. */
export function valueOfText(text: string, field: Field | undefined): unknown {
  if (text === "" && field?.kind !== "text") return null;
  switch (field?.kind) {
    case "number":
    case "integer":
      return Number.isFinite(Number(text)) ? Number(text) : text;
    case "boolean":
      return text === "true";
    case "list":
      return listOf(text);
    case "integers":
      return listOf(text).map(Number);
    default:
      return text;
  }
}

/** The value of a setting as the text of the input. */
export function textOfValue(value: unknown): string {
  if (Array.isArray(value)) return value.map(String).join(", ");
  if (typeof value === "string") return value;
  return typeof value === "number" || typeof value === "boolean" ? String(value) : "";
}
