// The open invitations to a project, a form to invite somebody, and the link of a new invitation,
// which is shown once.
import { useState, type ReactNode } from "react";
import { NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { api, ask } from "#api.ts";
import { Confirm } from "#parts/confirm.tsx";
import { FieldForm } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Name } from "#parts/name.tsx";
import { Once } from "#parts/once.tsx";
import { Answer, Time } from "#parts/show.tsx";
import { useGrantable } from "#permissions.ts";
import { queryClient } from "#queries.ts";

const invitationsPath = "/v2/projects/{project_id}/invitations";

const invitationsOf = (project: string, signal: AbortSignal) =>
  ask(api.GET(invitationsPath, { params: { path: { project_id: project } }, signal }));

type Made = { readonly email: string; readonly link: string; readonly isMailed: boolean };

async function changed(): Promise<void> {
  await queryClient.invalidateQueries({ queryKey: ["invitations"] });
}

/** The list and the form. */
export function Invitations({ project }: { readonly project: string }): ReactNode {
  const invitations = useQuery({
    queryKey: ["invitations", project],
    queryFn: ({ signal }) => invitationsOf(project, signal),
  });
  const [made, setMade] = useState<Made | null>(null);
  const withdraw = async (id: string): Promise<void> => {
    const params = { path: { project_id: project, invitation_id: id } };
    await ask(api.DELETE(`${invitationsPath}/{invitation_id}`, { params }));
    setMade(null);
    await changed();
  };
  return (
    <>
      <h2>Invitations</h2>
      {made === null ? null : <NewLink of={made} />}
      <Answer of={invitations}>
        {(all) => (
          <List
            label="Invitations"
            columns={["Email", "Role", "Invited by", "Invited", "Expires", ""]}
            empty="No invitation is open."
            rows={all.map((one) => ({
              key: one.id,
              cells: [
                <Name key="email" of={one.email} isStrong />,
                one.role,
                <Name key="by" of={one.invitedBy ?? "–"} />,
                <Time key="created" at={one.createdAt} />,
                <Time key="expires" at={one.expiresAt} />,
                <Confirm
                  key="withdraw"
                  what="Withdraw"
                  to={one.email}
                  onAct={() => withdraw(one.id)}
                />,
              ],
            }))}
          />
        )}
      </Answer>
      <Invite project={project} onMade={setMade} />
    </>
  );
}

function NewLink({ of: { email, link, isMailed } }: { readonly of: Made }): ReactNode {
  return (
    <Once
      label="the link of the invitation"
      text={link}
      more={<p>It is shown only now, and works once within 7 days.</p>}
    >
      {isMailed ? "The link was mailed to " : "Pass this link on to "}
      <Name of={email} />.
    </Once>
  );
}

type InviteProps = { readonly project: string; readonly onMade: (made: Made) => void };

function Invite({ project, onMade }: InviteProps): ReactNode {
  const grantable = useGrantable(project);
  const [round, setRound] = useState(0);
  return (
    <section className="narrow">
      <h2>Invite somebody</h2>
      <FieldForm
        key={round}
        label="Invite somebody"
        submit="Invite"
        fields={[
          { name: "email", label: "Email", type: "email", autoComplete: "off", required: true },
        ]}
        more={
          <NativeSelect
            name="role"
            label="Role"
            description="Roles that may do more than yours cannot be given."
            data={[...grantable]}
            defaultValue="member"
          />
        }
        onSubmit={async ({ email = "", role: chosen }) => {
          const role = grantable.find((one) => one === chosen) ?? "member";
          const params = { path: { project_id: project } };
          onMade(
            await ask(api.POST(invitationsPath, { params, body: { email: email.trim(), role } })),
          );
          setRound(round + 1);
          await changed();
        }}
      />
    </section>
  );
}
