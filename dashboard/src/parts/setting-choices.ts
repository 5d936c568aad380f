// What can be chosen for a setting instead of typing it. Used by the forms of new apps and of
// single settings.
import type { Field } from "@slipway/contract/field.ts";

/** The values to choose from; null: the value is typed. */
export function choicesOf(field: Field | undefined): readonly string[] | null {
  if (field?.kind === "boolean") return ["true", "false"];
  return field?.kind === "choice" ? field.choices : null;
}
