// The members of a project with their roles, the invitations that are open, and what each role may
// do.
import { Fragment, useState, type ReactNode } from "react";
import { Button, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import type { Role } from "@slipway/contract/words.ts";
import { api, ask } from "#api.ts";
import { Confirm } from "#parts/confirm.tsx";
import { Action } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Name } from "#parts/name.tsx";
import { Answer, Time, useTitle } from "#parts/show.tsx";
import { useGrantable, useMay } from "#permissions.ts";
import { askerQuery, meQuery, queryClient } from "#queries.ts";
import { Invitations } from "./invitations.tsx";
import { RoleTable } from "./role-table.tsx";

const membersPath = "/v2/projects/{project_id}/members";

const membersOf = (project: string, signal: AbortSignal) =>
  ask(api.GET(membersPath, { params: { path: { project_id: project } }, signal }));

type Member = Awaited<ReturnType<typeof membersOf>>[number];

/** Whoever changes their own role may do something else from now on. */
async function changed(): Promise<void> {
  await Promise.all(
    ["members", "project", "me"].map((name) => queryClient.invalidateQueries({ queryKey: [name] })),
  );
}

/** The page. */
export function MembersPage(): ReactNode {
  const { project = "" } = useParams({ strict: false });
  const mayWrite = useMay(project)("members.write");
  const members = useQuery({
    queryKey: ["members", project],
    queryFn: ({ signal }) => membersOf(project, signal),
  });
  const asker = useQuery(askerQuery);
  const me = useQuery({ ...meQuery, enabled: asker.data === "person" }).data?.person.id;
  useTitle("Members", project);
  return (
    <>
      <h1>Members</h1>
      <Answer of={members}>
        {(all) => (
          <List
            label="Members"
            columns={["Name", "Email", "Role", "Joined", ""]}
            empty="Nobody is a member yet. Invite the first one."
            rows={all.map((member) => ({
              key: member.personId,
              cells: [
                <Fragment key="name">
                  <Name of={member.name} isStrong />
                  {member.personId === me ? <span className="muted">you</span> : null}
                </Fragment>,
                <Name key="email" of={member.email} />,
                <RoleOf
                  key={`role ${member.role}`}
                  project={project}
                  member={member}
                  isMe={member.personId === me}
                />,
                <Time key="joined" at={member.createdAt} />,
                member.personId === me ? (
                  <Leave key="leave" project={project} />
                ) : (
                  <Remove key="remove" project={project} member={member} />
                ),
              ],
            }))}
          />
        )}
      </Answer>
      {mayWrite ? (
        <Invitations project={project} />
      ) : (
        <p className="muted">
          Your role does not allow you to invite people or to change roles. Ask an owner or an admin
          of the project.
        </p>
      )}
      <h2>What each role may do</h2>
      <RoleTable />
    </>
  );
}

type OneMember = { readonly project: string; readonly member: Member };

function RoleOf({ project, member, isMe }: OneMember & { readonly isMe: boolean }): ReactNode {
  const mayWrite = useMay(project)("members.write");
  const grantable = useGrantable(project);
  const [chosen, setChosen] = useState<Role>(member.role);
  if (!mayWrite) return member.role;
  // Somebody who may do more than the reader is not theirs to change.
  if (!grantable.includes(member.role))
    return <span title="Your role may do less.">{member.role}</span>;
  const save = async (): Promise<void> => {
    const params = { path: { project_id: project, person_id: member.personId } };
    await ask(api.PATCH(`${membersPath}/{person_id}`, { params, body: { role: chosen } }));
    await changed();
  };
  return (
    <div className="row">
      <NativeSelect
        className="small"
        aria-label={`Role of ${member.name}`}
        value={chosen}
        data={[...grantable]}
        onChange={({ currentTarget: { value } }) =>
          setChosen(grantable.find((role) => role === value) ?? member.role)
        }
      />
      {chosen === member.role ? null : (
        <>
          <Action variant="filled" onAct={save}>
            {isMe ? "Change my own role" : "Change role"}
          </Action>
          <Button variant="default" onClick={() => setChosen(member.role)}>
            Keep
          </Button>
        </>
      )}
    </div>
  );
}

function Remove({ project, member }: OneMember): ReactNode {
  const mayWrite = useMay(project)("members.write");
  const isTheirs = useGrantable(project).includes(member.role);
  if (!mayWrite || !isTheirs) return null;
  return (
    <Confirm
      what="Remove"
      to={member.name}
      onAct={async () => {
        const params = { path: { project_id: project, person_id: member.personId } };
        await ask(api.DELETE(`${membersPath}/{person_id}`, { params }));
        await changed();
      }}
    />
  );
}

function Leave({ project }: { readonly project: string }): ReactNode {
  const navigate = useNavigate();
  return (
    <Confirm
      what="Leave"
      to="the project"
      note="You need a new invitation to come back."
      onAct={async () => {
        await ask(api.DELETE(`${membersPath}/me`, { params: { path: { project_id: project } } }));
        // The first page leads to the only project.
        queryClient.removeQueries({ queryKey: ["projects"] });
        await navigate({ to: "/" });
        await Promise.all(
          ["projects", "me"].map((name) => queryClient.invalidateQueries({ queryKey: [name] })),
        );
      }}
    />
  );
}
