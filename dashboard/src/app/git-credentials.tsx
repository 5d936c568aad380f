// The project's credentials for git hosts, from the page of an app whose repository may need one.
// They are read only when somebody opens the list, because each reading is an entry of the audit
// log.
import { useState, type ReactNode } from "react";
import { NativeSelect, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { api, ask } from "#api.ts";
import { Confirm } from "#parts/confirm.tsx";
import { FieldForm } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Name } from "#parts/name.tsx";
import { Answer, Time } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { queryClient } from "#queries.ts";

const listPath = "/v2/projects/{project_id}/git-credentials";
const onePath = "/v2/projects/{project_id}/git-credentials/{host}";

/** What is read with a credential, beside the list of them. */
const changedWith = ["git-credentials", "repositories", "branches", "repository-settings"];

const kinds = { token: "access token (https)", ssh_key: "private key (ssh)" } as const;
type Kind = keyof typeof kinds;

/** What a token has to be allowed, at most. */
const tokenRights =
  'It needs to read the repository; to report builds as statuses of commits also "commit statuses: write" (GitHub), "repository: write" (Gitea, Forgejo, Bitbucket) or "api" (GitLab).';

type CredentialsProps = { readonly project: string; readonly repository: string | null };

/** The list behind a headline that opens it. */
export function GitCredentials({ project, repository }: CredentialsProps): ReactNode {
  const may = useMay(project);
  const [isOpen, setOpen] = useState(false);
  if (!may("credentials.read")) return null;
  return (
    <section>
      <h2>Credentials</h2>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>Credentials for private repositories</summary>
        {isOpen ? (
          <Credentials
            project={project}
            repository={repository}
            mayWrite={may("credentials.write")}
          />
        ) : null}
      </details>
    </section>
  );
}

function Credentials({
  project,
  repository,
  mayWrite,
}: CredentialsProps & { readonly mayWrite: boolean }): ReactNode {
  const [said, setSaid] = useState("");
  const path = { project_id: project };
  const credentials = useQuery({
    queryKey: ["git-credentials", project],
    queryFn: ({ signal }) => ask(api.GET(listPath, { params: { path }, signal })),
    staleTime: Infinity,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
  const changed = async ({ message }: { readonly message: string }): Promise<void> => {
    setSaid(message);
    for (const key of changedWith) await queryClient.invalidateQueries({ queryKey: [key] });
  };
  return (
    <>
      <p className="muted">
        One for each git host, for all apps of the project. It is encrypted, used only for fetching
        and for statuses of commits, and never shown again.
      </p>
      <Answer of={credentials}>
        {(all) => (
          <CredentialList
            of={all}
            remove={
              mayWrite
                ? async (host) =>
                    changed(await ask(api.DELETE(onePath, { params: { path: { ...path, host } } })))
                : null
            }
          />
        )}
      </Answer>
      <p role="status">{said}</p>
      {mayWrite ? (
        <SetCredential
          key={said}
          host={hostOfRepository(repository)}
          onSet={async (host, body) =>
            changed(await ask(api.PUT(onePath, { params: { path: { ...path, host } }, body })))
          }
        />
      ) : (
        <p className="muted">Your role does not allow you to set or remove credentials.</p>
      )}
    </>
  );
}

type Credential = {
  readonly host: string;
  readonly kind: Kind;
  readonly username: string | null;
  readonly updatedAt: string;
};

type CredentialListProps = {
  readonly of: readonly Credential[];
  /** Null: the viewer may not. */
  readonly remove: ((host: string) => Promise<void>) | null;
};

function CredentialList({ of: all, remove }: CredentialListProps): ReactNode {
  return (
    <List
      label="Git credentials"
      columns={["Host", "Kind", "User name", "Changed", ""]}
      empty="None is set: only public repositories can be fetched."
      rows={all.map(({ host, kind, username, updatedAt }) => ({
        key: host,
        cells: [
          <Name key="host" of={host} isStrong />,
          kinds[kind],
          username === null ? (
            <span className="muted">usual</span>
          ) : (
            <Name key="username" of={username} />
          ),
          <Time key="changed" at={updatedAt} />,
          remove === null ? null : (
            <Confirm
              key="remove"
              what="Remove"
              to={`the credential of ${host}`}
              onAct={() => remove(host)}
            />
          ),
        ],
      }))}
    />
  );
}

/** With its port; "" for `owner/repo`, whose host the operator has chosen. */
function hostOfRepository(repository: string | null): string {
  return repository !== null && URL.canParse(repository) ? new URL(repository).host : "";
}

type SetProps = {
  /** The host of the app's repository; "": its address does not say it. */
  readonly host: string;
  readonly onSet: (
    host: string,
    credential: { readonly kind: Kind; readonly username?: string; readonly secret: string },
  ) => Promise<void>;
};

function SetCredential({ host: known, onSet }: SetProps): ReactNode {
  const [kind, setKind] = useState<Kind>("token");
  return (
    <section className="narrow">
      <h3>Set a credential</h3>
      <FieldForm
        label="Set a git credential"
        submit="Set it"
        fields={[
          {
            name: "host",
            label: "Host",
            hint: "Without https://, with the port if it has one.",
            autoComplete: "off",
            spellCheck: false,
            required: true,
            placeholder: "github.com",
            defaultValue: known,
          },
        ]}
        more={<Secret kind={kind} onKind={setKind} />}
        onSubmit={({ host = "", username = "", secret = "" }) =>
          onSet(host.trim(), { kind, secret, ...(username === "" ? {} : { username }) })
        }
      />
    </section>
  );
}

function Secret({
  kind,
  onKind,
}: {
  readonly kind: Kind;
  readonly onKind: (kind: Kind) => void;
}): ReactNode {
  return (
    <>
      <NativeSelect
        label="Kind"
        value={kind}
        data={Object.entries(kinds).map(([value, label]) => ({ value, label }))}
        onChange={(event) => onKind(event.currentTarget.value === "ssh_key" ? "ssh_key" : "token")}
      />
      <TextInput
        name="username"
        label="User name"
        description={
          kind === "token" ? "Where the host asks for one; usually x-access-token." : "Usually git."
        }
        autoComplete="off"
        spellCheck={false}
      />
      {kind === "token" ? (
        <TextInput
          name="secret"
          label="Token"
          description={tokenRights}
          type="password"
          autoComplete="off"
          spellCheck={false}
          required
        />
      ) : (
        <Textarea
          name="secret"
          label="Private key"
          description="A deploy key without a passphrase, with its first and last line."
          className="code-input"
          rows={5}
          autoComplete="off"
          spellCheck={false}
          required
        />
      )}
    </>
  );
}
