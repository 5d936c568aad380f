// The tokens of a project: service accounts for the management API, and keys for calling apps. A
// token is shown once.
import { useState, type ReactNode } from "react";
import { NativeSelect } from "@mantine/core";
import { useParams } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { FieldForm } from "#parts/form.tsx";
import { Once } from "#parts/once.tsx";
import { useTitle } from "#parts/show.tsx";
import { useGrantable, useMay } from "#permissions.ts";
import { queryClient } from "#queries.ts";
import { expiries, expiryOf, TokenList, type Rotation } from "./token-list.tsx";

const accountsPath = "/v2/projects/{project_id}/service-accounts";
const keysPath = "/v2/projects/{project_id}/api-keys";

async function changed(): Promise<void> {
  await Promise.all(
    ["accounts", "keys"].map((name) => queryClient.invalidateQueries({ queryKey: [name] })),
  );
}

/** The page. */
export function KeysPage(): ReactNode {
  const { project = "" } = useParams({ strict: false });
  const mayWrite = useMay(project)("tokens.write");
  const [token, setToken] = useState<string | null>(null);
  const props = { project, mayWrite, onToken: setToken };
  useTitle("API keys", project);
  return (
    <>
      <h1>API keys</h1>
      {token === null ? null : (
        <Once label="the new token" text={token}>
          The new token. It is shown only now: copy it.
        </Once>
      )}
      <h2>Service accounts</h2>
      <p className="muted">For programs that manage the project, such as CI.</p>
      <Accounts {...props} />
      {mayWrite ? <NewAccount {...props} /> : null}
      <h2>Keys for calling apps</h2>
      <p className="muted">They can call apps, and nothing else.</p>
      <Keys {...props} />
      {mayWrite ? <NewKey {...props} /> : null}
    </>
  );
}

type Tokens = {
  readonly project: string;
  readonly mayWrite: boolean;
  /** Gets a new token, to be shown. */
  readonly onToken: (token: string) => void;
};

function Accounts({ project, mayWrite, onToken }: Tokens): ReactNode {
  const path = { project_id: project };
  const paramsOf = (id: string) => ({ path: { ...path, service_account_id: id } });
  return (
    <TokenList
      label="Service accounts"
      empty="No service accounts."
      queryKey={["accounts", project]}
      read={(signal) => ask(api.GET(accountsPath, { params: { path }, signal }))}
      own={{ head: "Role", of: ({ role, permissions }) => role ?? permissions?.join(", ") ?? "" }}
      mayWrite={mayWrite}
      revoke={async (id) => {
        await ask(api.DELETE(`${accountsPath}/{service_account_id}`, { params: paramsOf(id) }));
        await changed();
      }}
      rotate={async (id, body: Rotation) => {
        const params = paramsOf(id);
        onToken(
          (await ask(api.POST(`${accountsPath}/{service_account_id}/rotate`, { params, body })))
            .token,
        );
        await changed();
      }}
    />
  );
}

function Keys({ project, mayWrite, onToken }: Tokens): ReactNode {
  const path = { project_id: project };
  const paramsOf = (id: string) => ({ path: { ...path, api_key_id: id } });
  return (
    <TokenList
      label="Keys for calling apps"
      empty="No keys."
      queryKey={["keys", project]}
      read={(signal) => ask(api.GET(keysPath, { params: { path }, signal }))}
      own={{ head: "Readable", of: ({ readable }) => (readable ? "yes" : "no") }}
      mayWrite={mayWrite}
      revoke={async (id) => {
        await ask(api.DELETE(`${keysPath}/{api_key_id}`, { params: paramsOf(id) }));
        await changed();
      }}
      rotate={async (id, body: Rotation) => {
        const params = paramsOf(id);
        onToken((await ask(api.POST(`${keysPath}/{api_key_id}/rotate`, { params, body }))).token);
        await changed();
      }}
    />
  );
}

const nameField = {
  name: "name",
  label: "Name",
  autoComplete: "off",
  required: true,
  maxLength: 100,
} as const;

function NewAccount({ project, onToken }: Tokens): ReactNode {
  const grantable = useGrantable(project);
  return (
    <details className="narrow">
      <summary>New service account</summary>
      <FieldForm
        label="New service account"
        submit="Create service account"
        fields={[nameField]}
        more={
          <>
            <NativeSelect name="role" label="Role" data={[...grantable]} defaultValue="member" />
            <NativeSelect
              name="days"
              label="Expires"
              data={[{ value: "", label: "never" }, ...expiries]}
              defaultValue="90"
            />
          </>
        }
        onSubmit={async ({ name = "", role: chosen, days = "" }) => {
          const role = grantable.find((one) => one === chosen) ?? "member";
          const body = { name, role, ...expiryOf(days) };
          onToken(
            (await ask(api.POST(accountsPath, { params: { path: { project_id: project } }, body })))
              .token,
          );
          await changed();
        }}
      />
    </details>
  );
}

function NewKey({ project, onToken }: Tokens): ReactNode {
  return (
    <details className="narrow">
      <summary>New key for calling apps</summary>
      <FieldForm
        label="New key for calling apps"
        submit="Create key"
        fields={[nameField]}
        more={
          <>
            <NativeSelect
              name="days"
              label="Expires"
              data={[{ value: "", label: "in ten years" }, ...expiries]}
            />
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
          onToken(
            (await ask(api.POST(keysPath, { params: { path: { project_id: project } }, body })))
              .token,
          );
          await changed();
        }}
      />
    </details>
  );
}
