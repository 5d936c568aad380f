// Secrets of a project or an app: hidden until somebody asks for one. The API takes the whole map,
// so that a change is made to what is there at that moment, not to what the page read long ago.
import { useState, type ReactNode } from "react";
import { Checkbox, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { queryClient } from "#queries.ts";
import { Confirm } from "./confirm.tsx";
import { FieldForm } from "./form.tsx";
import { List } from "./list.tsx";
import { SecretValue } from "./secret-value.tsx";
import { Answer } from "./show.tsx";

type All = Readonly<Record<string, string>>;

type SecretsProps = {
  /** Tells the secrets of this place from others. */
  readonly queryKey: readonly unknown[];
  readonly read: (signal?: AbortSignal) => Promise<All>;
  /** Replaces all; resolves with what the platform says. */
  readonly replace: (all: Record<string, string>, restarts: boolean) => Promise<string>;
  readonly mayWrite: boolean;
  readonly about: string;
  /** What a restart means here. */
  readonly restart: string;
};

/** The list, and a form to set one. */
export function Secrets({
  queryKey,
  read,
  replace,
  mayWrite,
  about,
  restart,
}: SecretsProps): ReactNode {
  const secrets = useQuery({
    queryKey,
    queryFn: ({ signal }) => read(signal),
    // Each reading is an entry of the audit log, so that it is not repeated by itself.
    staleTime: Infinity,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    // It would lose a secret that is called __proto__.
    structuralSharing: false,
  });
  const [restarts, setRestarts] = useState(false);
  const [message, setMessage] = useState("");
  const change = async (changed: (all: All) => Record<string, string>): Promise<void> => {
    const all = changed(await read());
    setMessage(await replace(all, restarts));
    queryClient.setQueryData(queryKey, all);
  };
  return (
    <Answer of={secrets}>
      {(all) => (
        <>
          <p className="muted">{about}</p>
          <SecretList
            of={all}
            remove={
              mayWrite
                ? (name) =>
                    change((now) =>
                      Object.fromEntries(Object.entries(now).filter(([one]) => one !== name)),
                    )
                : null
            }
          />
          <p role="status">{message}</p>
          {mayWrite ? (
            <SetSecret
              set={(name, value) => change((now) => ({ ...now, [name]: value }))}
              restart={
                <Checkbox
                  size="xs"
                  label={restart}
                  checked={restarts}
                  onChange={(event) => setRestarts(event.currentTarget.checked)}
                />
              }
            />
          ) : (
            <p className="muted">Your role does not allow you to change secrets.</p>
          )}
        </>
      )}
    </Answer>
  );
}

type SecretListProps = {
  readonly of: All;
  /** Null: the viewer may not. */
  readonly remove: ((name: string) => Promise<void>) | null;
};

function SecretList({ of: all, remove }: SecretListProps): ReactNode {
  return (
    <List
      label="Secrets"
      columns={["Name", "Value", ""]}
      empty="No secrets yet."
      rows={Object.entries(all).map(([name, value]) => ({
        key: name,
        cells: [
          <code key="name" className="name">
            {name}
          </code>,
          <SecretValue key="value" name={name} value={value} />,
          remove === null ? null : (
            <Confirm key="remove" what="Remove" to={name} onAct={() => remove(name)} />
          ),
        ],
      }))}
    />
  );
}

type SetSecretProps = {
  readonly set: (name: string, value: string) => Promise<void>;
  readonly restart: ReactNode;
};

function SetSecret({ set, restart }: SetSecretProps): ReactNode {
  const [round, setRound] = useState(0);
  return (
    <section className="narrow">
      <h2>Set a secret</h2>
      <FieldForm
        key={round}
        label="Set a secret"
        submit="Set"
        fields={[
          {
            name: "name",
            label: "Name",
            autoComplete: "off",
            spellCheck: false,
            required: true,
            placeholder: "API_TOKEN",
          },
        ]}
        more={
          <>
            <Value />
            {restart}
          </>
        }
        onSubmit={async ({ name = "", value = "" }) => {
          await set(name, value.replaceAll("\r\n", "\n"));
          setRound(round + 1);
        }}
      />
    </section>
  );
}

/**
 * Hidden while it is typed; but a field that hides what is in it can hold no key or certificate of
 * several lines.
 */
function Value(): ReactNode {
  const [isLong, setLong] = useState(false);
  const attributes = {
    name: "value",
    label: "Value",
    autoComplete: "off",
    spellCheck: false,
    required: true,
  };
  return (
    <>
      {isLong ? (
        <Textarea {...attributes} className="code-input" rows={6} />
      ) : (
        <TextInput {...attributes} type="password" />
      )}
      <Checkbox
        size="xs"
        label="It has several lines, such as a key or a certificate"
        checked={isLong}
        onChange={(event) => setLong(event.currentTarget.checked)}
      />
    </>
  );
}
