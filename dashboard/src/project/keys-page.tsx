// The tokens of a project: service accounts for the management API, and keys for calling apps. A token is shown once.
import { useState, type ReactNode } from "react";
import { NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { roles } from "@slipway/contract/words.ts";
import { api, ask } from "#api.ts";
import { Action, FieldForm } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Answer, Copyable, State, Time, useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { queryClient } from "#queries.ts";

const accountsPath = "/v2/projects/{project_id}/service-accounts";
const keysPath = "/v2/projects/{project_id}/api-keys";
const dayMs = 86_400_000;

async function changed(): Promise<void> {
  await Promise.all(["accounts", "keys"].map((name) => queryClient.invalidateQueries({ queryKey: [name] })));
}

/** The page. */
export function KeysPage(): ReactNode {
  const { project = "" } = useParams({ strict: false });
  const mayWrite = useMay(project)("tokens.write");
  const [token, setToken] = useState<string | null>(null);
  useTitle("API keys", project);
  return (
    <>
      <h1>API keys</h1>
      {token === null ? null : (
        <section className="once" role="status">
          <p className="strong">The new token. It is shown only now: copy it.</p>
          <Copyable label="the new token" text={token} />
        </section>
      )}
      <h2>Service accounts</h2>
      <p className="muted">For programs that manage the project, such as CI.</p>
      <Accounts project={project} mayWrite={mayWrite} />
      {mayWrite ? <NewAccount project={project} onToken={setToken} /> : null}
      <h2>Keys for calling apps</h2>
      <p className="muted">They can call apps, and nothing else.</p>
      <Keys project={project} mayWrite={mayWrite} />
      {mayWrite ? <NewKey project={project} onToken={setToken} /> : null}
    </>
  );
}

type Tokens = { readonly project: string; readonly mayWrite: boolean };
type Account = {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly created_at: string;
  readonly expires_at: string | null;
  readonly last_used_at: string | null;
};

function cellsOf(account: Account): ReactNode[] {
  return [
    <State key="state" of={account.state} />,
    <Time key="created" at={account.created_at} />,
    account.expires_at === null ? "never" : <Time key="expires" at={account.expires_at} />,
    account.last_used_at === null ? "never" : <Time key="used" at={account.last_used_at} />,
  ];
}

function Accounts({ project, mayWrite }: Tokens): ReactNode {
  const path = { project_id: project };
  const accounts = useQuery({
    queryKey: ["accounts", project],
    queryFn: ({ signal }) => ask(api.GET(accountsPath, { params: { path }, signal })),
  });
  const revoke = async (id: string): Promise<void> => {
    const params = { path: { ...path, service_account_id: id } };
    await ask(api.DELETE(`${accountsPath}/{service_account_id}`, { params }));
    await changed();
  };
  return (
    <Answer of={accounts}>
      {(all) => (
        <List
          label="Service accounts"
          columns={["Name", "Role", "State", "Created", "Expires", "Last used", ""]}
          empty="No service accounts."
          rows={all.map((one) => ({
            key: one.id,
            cells: [
              <span key="name" className="strong">
                {one.name}
              </span>,
              one.role ?? one.permissions?.join(", ") ?? "",
              ...cellsOf(one),
              mayWrite && one.state === "active" ? (
                <Revoke key="revoke" name={one.name} onAct={() => revoke(one.id)} />
              ) : null,
            ],
          }))}
        />
      )}
    </Answer>
  );
}

function Keys({ project, mayWrite }: Tokens): ReactNode {
  const path = { project_id: project };
  const keys = useQuery({
    queryKey: ["keys", project],
    queryFn: ({ signal }) => ask(api.GET(keysPath, { params: { path }, signal })),
    refetchOnWindowFocus: false,
  });
  const revoke = async (id: string): Promise<void> => {
    await ask(api.DELETE(`${keysPath}/{api_key_id}`, { params: { path: { ...path, api_key_id: id } } }));
    await changed();
  };
  return (
    <Answer of={keys}>
      {(all) => (
        <List
          label="Keys for calling apps"
          columns={["Name", "Readable", "State", "Created", "Expires", "Last used", ""]}
          empty="No keys."
          rows={all.map((one) => ({
            key: one.id,
            cells: [
              <span key="name" className="strong">
                {one.name}
              </span>,
              one.readable ? "yes" : "no",
              ...cellsOf(one),
              mayWrite && one.state === "active" ? (
                <Revoke key="revoke" name={one.name} onAct={() => revoke(one.id)} />
              ) : null,
            ],
          }))}
        />
      )}
    </Answer>
  );
}

/** Asks once more: whoever uses the token is refused at once. */
function Revoke({ name, onAct }: { readonly name: string; readonly onAct: () => Promise<void> }): ReactNode {
  const [isAsked, setAsked] = useState(false);
  if (!isAsked) {
    return (
      <button type="button" className="as-link" aria-label={`Revoke ${name}`} onClick={() => setAsked(true)}>
        Revoke
      </button>
    );
  }
  return (
    <Action size="compact-xs" color="red" variant="filled" onAct={onAct}>
      Revoke now
    </Action>
  );
}

const nameField = { name: "name", label: "Name", autoComplete: "off", required: true, maxLength: 100 } as const;
const expiries = [
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "a year" },
];

function expiryOf(days: string): { expires_at?: string } {
  return days === "" ? {} : { expires_at: new Date(Date.now() + Number(days) * dayMs).toISOString() };
}

type NewProps = { readonly project: string; readonly onToken: (token: string) => void };

function NewAccount({ project, onToken }: NewProps): ReactNode {
  return (
    <details>
      <summary>New service account</summary>
      <FieldForm
        label="New service account"
        submit="Create service account"
        fields={[nameField]}
        more={
          <>
            <NativeSelect name="role" label="Role" data={[...roles]} defaultValue="member" />
            <NativeSelect
              name="days"
              label="Expires"
              data={[{ value: "", label: "never" }, ...expiries]}
              defaultValue="90"
            />
          </>
        }
        onSubmit={async ({ name = "", role: chosen, days = "" }) => {
          const role = roles.find((one) => one === chosen) ?? "member";
          const body = { name, role, ...expiryOf(days) };
          onToken((await ask(api.POST(accountsPath, { params: { path: { project_id: project } }, body }))).token);
          await changed();
        }}
      />
    </details>
  );
}

function NewKey({ project, onToken }: NewProps): ReactNode {
  return (
    <details>
      <summary>New key for calling apps</summary>
      <FieldForm
        label="New key for calling apps"
        submit="Create key"
        fields={[nameField]}
        more={
          <>
            <NativeSelect name="days" label="Expires" data={[{ value: "", label: "in ten years" }, ...expiries]} />
            <NativeSelect
              name="readable"
              label="Readable"
              description="A readable key can be shown again to whoever may issue tokens; the panel that tries apps uses one."
              data={["no", "yes"]}
            />
          </>
        }
        onSubmit={async ({ name = "", days = "", readable }) => {
          const body = { name, readable: readable === "yes", ...expiryOf(days) };
          onToken((await ask(api.POST(keysPath, { params: { path: { project_id: project } }, body }))).token);
          await changed();
        }}
      />
    </details>
  );
}
