// The environment variables of an app that is to be created: they are stored as its secrets. Lines
// of a file called .env can be pasted into the first field.
import type { ReactNode } from "react";
import { Button, TextInput } from "@mantine/core";
import { readEnvLines, type Variable } from "./env-lines.ts";
import { variablesProblem } from "./variable-values.ts";

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
