// The secrets of an app: hidden until somebody asks for one. A change replaces the whole map, as the API takes it.
import { useState, type ReactNode } from "react";
import { Button, Checkbox } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { api, ask } from "#api.ts";
import { Action, FieldForm } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Answer, CopyIcon, useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { pathOf, queryClient, type AppRef } from "#queries.ts";
import { useApp } from "./app-frame.tsx";

const secretsPath = "/v2/projects/{project_id}/apps/{app_id}/secrets";

/** Each reading is an entry of the audit log, so that it is not repeated by itself. */
const secretsQuery = (ref: AppRef) => ({
  queryKey: ["secrets", ref],
  queryFn: ({ signal }: { signal: AbortSignal }) =>
    ask(api.GET(secretsPath, { params: { path: pathOf(ref) }, signal })),
  staleTime: Infinity,
  refetchOnWindowFocus: false,
  refetchOnReconnect: false,
});

/** The page. */
export function SecretsPage(): ReactNode {
  const ref = useApp();
  const secrets = useQuery(secretsQuery(ref));
  const [restarts, setRestarts] = useState(false);
  const [message, setMessage] = useState("");
  const mayWrite = useMay(ref.project)("secrets.write");
  useTitle("Secrets", ref.app);
  const replace = async (body: Record<string, string>): Promise<void> => {
    const params = { path: pathOf(ref), query: { restart: restarts } };
    setMessage((await ask(api.PATCH(secretsPath, { params, body }))).message);
    queryClient.setQueryData(secretsQuery(ref).queryKey, body);
  };
  return (
    <Answer of={secrets}>
      {(all) => (
        <>
          <p className="muted">
            Replicas see them as environment variables when they start. They override those of the project.
          </p>
          <List
            label="Secrets"
            columns={["Name", "Value", ""]}
            empty="No secrets yet."
            rows={Object.entries(all).map(([name, value]) => ({
              key: name,
              cells: [
                <code key="name">{name}</code>,
                <Value key="value" name={name} value={value} />,
                mayWrite ? (
                  <Action key="remove" size="compact-xs" onAct={() => replace(without(all, name))}>
                    Remove
                  </Action>
                ) : null,
              ],
            }))}
          />
          <p role="status">{message}</p>
          {mayWrite ? <SetSecret all={all} replace={replace} restarts={restarts} setRestarts={setRestarts} /> : null}
        </>
      )}
    </Answer>
  );
}

function without(all: Readonly<Record<string, string>>, name: string): Record<string, string> {
  return Object.fromEntries(Object.entries(all).filter(([one]) => one !== name));
}

function Value({ name, value }: { readonly name: string; readonly value: string }): ReactNode {
  const [isShown, setShown] = useState(false);
  return (
    <span className="secret">
      <code>{isShown ? value : "••••••••"}</code>
      <Button
        variant="subtle"
        size="compact-xs"
        onClick={() => setShown(!isShown)}
        aria-label={`${isShown ? "Hide" : "Show"} ${name}`}
      >
        {isShown ? "Hide" : "Show"}
      </Button>
      <CopyIcon text={value} label={`Copy ${name}`} />
    </span>
  );
}

type SetSecretProps = {
  readonly all: Readonly<Record<string, string>>;
  readonly replace: (body: Record<string, string>) => Promise<void>;
  readonly restarts: boolean;
  readonly setRestarts: (restarts: boolean) => void;
};

function SetSecret({ all, replace, restarts, setRestarts }: SetSecretProps): ReactNode {
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
          { name: "value", label: "Value", type: "password", autoComplete: "off", spellCheck: false, required: true },
        ]}
        more={
          <Checkbox
            size="xs"
            label="Restart the replicas, one after the other, so that they see it now"
            checked={restarts}
            onChange={(event) => setRestarts(event.currentTarget.checked)}
          />
        }
        onSubmit={async ({ name = "", value = "" }) => {
          await replace({ ...all, [name]: value });
          setRound(round + 1);
        }}
      />
    </section>
  );
}
