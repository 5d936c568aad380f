// The name of a project, and its deletion.
import { useState, type ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { DeleteByName } from "#parts/delete-by-name.tsx";
import { FieldForm } from "#parts/form.tsx";
import { Answer, Copyable, useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { projectQuery, projectsChanged } from "#queries.ts";

const projectPath = "/v2/projects/{project_id}";

/** The page. */
export function SettingsPage(): ReactNode {
  const { project: id = "" } = useParams({ strict: false });
  const project = useQuery(projectQuery(id));
  const may = useMay(id);
  const navigate = useNavigate();
  const [said, setSaid] = useState("");
  useTitle("Settings", id);
  const params = { path: { project_id: id } };
  const remove = async (): Promise<void> => {
    await ask(api.DELETE(projectPath, { params }));
    await navigate({ to: "/" });
    await projectsChanged();
  };
  return (
    <>
      <h1>Settings</h1>
      <Answer of={project}>
        {({ name }) => (
          <>
            <section className="narrow">
              <p className="muted">The id of the project, as in the addresses of its apps:</p>
              <Copyable label="the id of the project" text={id} />
              {may("projects.update") ? (
                <FieldForm
                  key={name}
                  label="Rename the project"
                  submit="Rename"
                  fields={[
                    {
                      name: "name",
                      label: "Name",
                      hint: "What people are shown. No address changes with it.",
                      autoComplete: "off",
                      required: true,
                      defaultValue: name,
                    },
                  ]}
                  onSubmit={async (values) => {
                    const body = { name: values["name"] ?? "" };
                    const renamed = await ask(api.PATCH(projectPath, { params, body }));
                    setSaid(`The project is called ${renamed.name} now.`);
                    await projectsChanged();
                  }}
                />
              ) : (
                <p className="muted">Your role does not allow you to rename the project.</p>
              )}
              <p role="status">{said}</p>
              <p>
                <Link to="/projects/new">Make another project</Link>
              </p>
            </section>
            {may("projects.delete") ? (
              <DeleteByName kind="project" name={name} onDelete={remove}>
                Deletes its apps, members, invitations, tokens, secrets and git credentials; its
                audit log, usage and statements are kept.
              </DeleteByName>
            ) : (
              <p className="muted">Your role does not allow you to delete the project.</p>
            )}
          </>
        )}
      </Answer>
    </>
  );
}
