// The environment variables of an app that is to be created: they are stored as its secrets. Lines
// of a file called .env can be pasted into the first field.
import type { ReactNode } from "react";
import { Button, TextInput } from "@mantine/core";
import { fieldSchema } from "@slipway/contract/field.ts";
import { secretValues } from "@slipway/contract/parameters.ts";
import { readEnvLines, type Variable } from "./env-lines.ts";

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

type VariablesProps = {
  readonly all: readonly Variable[];
  readonly onChange: (all: readonly Variable[]) => void;
};

/** One row for each, and an empty one. */
export function Variables({ all, onChange }: VariablesProps): ReactNode {
  const rows = [...all, { name: "", value: "" }];
  const set = (at: number, change: Partial<Variable>): void =>
    onChange(
      rows
        .map((row, index) => (index === at ? { ...row, ...change } : row))
        .slice(0, Math.max(all.length, at + 1)),
    );
  const problem = variablesProblem(all);
  return (
    <>
      {rows.map(({ name, value }, at) => (
        <div key={at} className="variable">
          <TextInput
            label={at === 0 ? "Name" : undefined}
            aria-label={`Name of variable ${at + 1}`}
            placeholder="API_TOKEN"
            autoComplete="off"
            spellCheck={false}
            value={name}
            onChange={({ currentTarget }) => set(at, { name: currentTarget.value })}
            onPaste={(event) => {
              const pasted = readEnvLines(event.clipboardData.getData("text"));
              if (pasted.length === 0) return;
              event.preventDefault();
              onChange([...all.slice(0, at), ...pasted, ...all.slice(at + 1)]);
            }}
          />
          <TextInput
            label={at === 0 ? "Value" : undefined}
            aria-label={`Value of variable ${at + 1}`}
            type="password"
            autoComplete="off"
            spellCheck={false}
            value={value}
            onChange={({ currentTarget }) => set(at, { value: currentTarget.value })}
          />
          {at < all.length ? (
            <Button
              variant="subtle"
              aria-label={`Remove variable ${at + 1}`}
              onClick={() => onChange(all.toSpliced(at, 1))}
            >
              Remove
            </Button>
          ) : null}
        </div>
      ))}
      <p className="error" role="alert">
        {problem}
      </p>
    </>
  );
}
