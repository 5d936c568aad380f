// Creates a project, of which whoever creates it becomes the owner.
import type { ReactNode } from "react";
import { useNavigate } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { FieldForm } from "#parts/form.tsx";
import { useTitle } from "#parts/show.tsx";
import { projectsChanged } from "#queries.ts";

/** The page. */
export function NewProjectPage(): ReactNode {
  const navigate = useNavigate();
  useTitle("New project");
  return (
    <section className="narrow">
      <h1>New project</h1>
      <p className="muted">
        Apps, members, secrets, storage and bills belong to a project. You become its owner, and can
        invite others.
      </p>
      <FieldForm
        label="New project"
        submit="Create the project"
        fields={[
          { name: "name", label: "Name", autoComplete: "off", required: true, autoFocus: true },
        ]}
        onSubmit={async ({ name = "" }) => {
          const { id } = await ask(api.POST("/v2/projects", { body: { name } }));
          await projectsChanged();
          await navigate({ to: "/projects/$project", params: { project: id } });
        }}
      />
    </section>
  );
}
