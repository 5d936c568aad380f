// What signs the webhooks of a project: one secret, or two while receivers are changed over.
import { useState, type ReactNode } from "react";
import { NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { api, ask } from "#api.ts";
import { Confirm } from "#parts/confirm.tsx";
import { FieldForm } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Once } from "#parts/once.tsx";
import { SecretValue } from "#parts/secret-value.tsx";
import { Answer, Short, State, Time } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { queryClient } from "#queries.ts";

const secretsPath = "/v2/projects/{project_id}/webhook-secrets";

async function changed(): Promise<void> {
  await queryClient.invalidateQueries({ queryKey: ["webhook-secrets"] });
}

/** The list, and a form to make another one. */
export function WebhookSecrets({ project }: { readonly project: string }): ReactNode {
  const mayWrite = useMay(project)("webhooks.write");
  const [made, setMade] = useState<string | null>(null);
  const secrets = useQuery({
    queryKey: ["webhook-secrets", project],
    queryFn: ({ signal }) =>
      ask(api.GET(secretsPath, { params: { path: { project_id: project } }, signal })),
    // Each reading is an entry of the audit log, so that it is not repeated by itself.
    staleTime: Infinity,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
  const remove = async (id: string): Promise<void> => {
    const params = { path: { project_id: project, secret_id: id } };
    await ask(api.DELETE(`${secretsPath}/{secret_id}`, { params }));
    setMade(null);
    await changed();
  };
  return (
    <>
      <p className="muted">Receivers check with them that a webhook comes from here.</p>
      {made === null ? null : (
        <Once label="the new secret" text={made}>
          The new secret signs from now on. Give it to your receivers.
        </Once>
      )}
      <Answer of={secrets}>
        {(all) => (
          <List
            label="Signing secrets"
            columns={["Secret", "Value", "State", "Created", "Ends", ""]}
            rows={all.map((one) => ({
              key: one.id,
              cells: [
                <Short key="id" id={one.id} />,
                one.secret === null ? (
                  <span key="value" className="muted">
                    not for your role
                  </span>
                ) : (
                  <SecretValue key="value" name={`secret ${one.id}`} value={one.secret} />
                ),
                <State key="state" of={one.expiresAt === null ? "active" : "ends"} />,
                <Time key="created" at={one.createdAt} />,
                <Time key="ends" at={one.expiresAt} />,
                mayWrite ? (
                  <Confirm
                    key="remove"
                    what="Remove"
                    to={`secret ${one.id}`}
                    note={
                      all.length === 1
                        ? "A new secret takes its place at once: receivers refuse webhooks until they have it."
                        : "It stops signing at once."
                    }
                    onAct={() => remove(one.id)}
                  />
                ) : null,
              ],
            }))}
          />
        )}
      </Answer>
      {mayWrite ? <NewSecret project={project} onMade={setMade} /> : null}
    </>
  );
}

const overlaps = [
  { value: "0", label: "not at all" },
  { value: "1", label: "an hour" },
  { value: "24", label: "a day" },
  { value: "168", label: "a week" },
  { value: "720", label: "30 days" },
];

type NewProps = { readonly project: string; readonly onMade: (secret: string) => void };

function NewSecret({ project, onMade }: NewProps): ReactNode {
  return (
    <details className="narrow">
      <summary>Rotate: a new secret</summary>
      <FieldForm
        label="New signing secret"
        submit="Create secret"
        fields={[]}
        more={
          <NativeSelect
            name="hours"
            label="The present secret stays valid for"
            description="Both sign meanwhile, so that receivers can be changed one by one."
            data={overlaps}
            defaultValue="24"
          />
        }
        onSubmit={async ({ hours }) => {
          const params = { path: { project_id: project } };
          const body = { overlapHours: Number(hours) };
          onMade((await ask(api.POST(secretsPath, { params, body }))).secret);
          await changed();
        }}
      />
    </details>
  );
}
