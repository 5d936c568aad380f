// Changes one setting: the input that its kind takes, then what the change takes, then the change.
import { useState, type ReactNode } from "react";
import { Button, NativeSelect, TextInput } from "@mantine/core";
import type { Field } from "@slipway/contract/field.ts";
import { api, ask } from "#api.ts";
import { useRun } from "#parts/form.tsx";
import { choicesOf } from "#parts/setting-choices.ts";
import { pathOf, queryClient } from "#queries.ts";
import { useApp } from "./app-frame.tsx";
import { textOfValue, valueOfText } from "./setting-text.ts";

/** What a change took. */
export type ChangeDone = { readonly message: string; readonly buildId: string | null };

type SettingFormProps = {
  readonly name: string;
  readonly field: Field | undefined;
  readonly value: unknown;
  readonly onDone: (change: ChangeDone) => void;
  readonly onCancel: () => void;
};

/** The form. */
export function SettingForm({ name, field, value, onDone, onCancel }: SettingFormProps): ReactNode {
  const ref = useApp();
  const [text, setText] = useState(textOfValue(value));
  const [takes, setTakes] = useState<string | null>(null);
  const { error, isWaiting, run } = useRun();
  const send = (dryRun: boolean) => {
    const params = { path: pathOf(ref), query: { dryRun } };
    // The table of fields says which value a name takes, and the platform checks it.
    const body = { [name]: valueOfText(text, field) };
    return ask(api.PATCH("/v2/projects/{project_id}/apps/{app_id}", { params, body }));
  };
  const look = async (): Promise<void> => setTakes((await send(true)).message);
  const change = async (): Promise<void> => {
    const { message, buildId } = await send(false);
    await queryClient.invalidateQueries({ queryKey: ["app"] });
    onDone({ message, buildId });
  };
  return (
    <form
      className="form"
      aria-label={`Change ${name}`}
      onSubmit={(event) => {
        event.preventDefault();
        void run(takes === null ? look : change);
      }}
    >
      <Input
        name={name}
        field={field}
        text={text}
        onText={(next) => {
          setText(next);
          setTakes(null);
        }}
      />
      {takes === null ? null : <p role="status">{takes}</p>}
      <p className="error" role="alert">
        {error}
      </p>
      <div className="row">
        <Button type="submit" size="compact-xs" aria-disabled={isWaiting}>
          {takes === null ? "See what it takes" : "Change it"}
        </Button>
        <Button size="compact-xs" variant="default" onClick={onCancel}>
          Cancel
        </Button>
      </div>
    </form>
  );
}

type InputProps = {
  readonly name: string;
  readonly field: Field | undefined;
  readonly text: string;
  readonly onText: (text: string) => void;
};

function Input({ name, field, text, onText }: InputProps): ReactNode {
  const choices = choicesOf(field);
  if (choices !== null) {
    const data =
      field?.kind === "choice" && field.default === null
        ? [{ value: "", label: "default" }, ...choices]
        : [...choices];
    return (
      <NativeSelect
        label={name}
        value={text}
        data={data}
        onChange={(event) => onText(event.currentTarget.value)}
      />
    );
  }
  return (
    <TextInput
      label={name}
      value={text}
      autoFocus
      autoComplete="off"
      spellCheck={false}
      placeholder={field?.kind === "text" ? undefined : "empty for the default"}
      description={
        field?.kind === "list" || field?.kind === "integers" ? "Separated by commas." : undefined
      }
      onChange={(event) => onText(event.currentTarget.value)}
    />
  );
}
