// Whether the environment variables of a new app can be set, and how the API takes them. Pure.
import { fieldSchema } from "@slipway/contract/field.ts";
import { secretValues } from "@slipway/contract/parameters.ts";
import type { Variable } from "./env-lines.ts";

/** Why the variables cannot be set; "": they can. Those without name and value are left out. */
export function variablesProblem(all: readonly Variable[]): string {
  const named = all.filter(({ name, value }) => name !== "" || value !== "");
  const names = new Set(named.map(({ name }) => name));
  const wrong = named.find(({ name }) => !secretValues.name.test(name));
  if (wrong !== undefined) {
    return `${JSON.stringify(wrong.name)} is no name of a variable: 1 to 253 letters, digits, "_", "." and "-".`;
  }
  if (named.some(({ value }) => !fieldSchema(secretValues.value).safeParse(value).success)) {
    return `A value must be ${secretValues.value.allowed}.`;
  }
  return names.size === named.length ? "" : "Two variables have the same name.";
}

/** Converts the variables to what the API accepts. */
export function secretsOf(all: readonly Variable[]): Record<string, string> {
  return Object.fromEntries(
    all.filter(({ name }) => name !== "").map(({ name, value }) => [name, value]),
  );
}
