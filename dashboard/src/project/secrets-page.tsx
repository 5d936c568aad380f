// The secrets of a project, which all its apps see.
import type { ReactNode } from "react";
import { useParams } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { Secrets } from "#parts/secrets.tsx";
import { useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";

const secretsPath = "/v2/projects/{project_id}/secrets";

/** The page. */
export function SecretsPage(): ReactNode {
  const { project = "" } = useParams({ strict: false });
  const path = { project_id: project };
  const mayWrite = useMay(project)("secrets.write");
  useTitle("Secrets", project);
  return (
    <>
      <h1>Secrets</h1>
      <Secrets
        key={project}
        queryKey={["secrets", project]}
        read={(signal) => ask(api.GET(secretsPath, { params: { path }, signal }))}
        replace={async (body, restart) =>
          (await ask(api.PATCH(secretsPath, { params: { path, query: { restart } }, body })))
            .message
        }
        mayWrite={mayWrite}
        about="The replicas of all apps see them as environment variables when they start. Secrets of an app override them."
        restart="Restart the replicas of all apps, one after the other, so that they see it now"
      />
    </>
  );
}
