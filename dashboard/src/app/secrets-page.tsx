// The secrets of an app.
import type { ReactNode } from "react";
import { api, ask } from "#api.ts";
import { Secrets } from "#parts/secrets.tsx";
import { useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { pathOf } from "#queries.ts";
import { useApp } from "./app-frame.tsx";

const secretsPath = "/v2/projects/{project_id}/apps/{app_id}/secrets";

/** The page. */
export function SecretsPage(): ReactNode {
  const ref = useApp();
  const path = pathOf(ref);
  const mayWrite = useMay(ref.project)("secrets.write");
  useTitle("Secrets", ref.app);
  return (
    <Secrets
      key={ref.app}
      queryKey={["secrets", ref.project, ref.app]}
      read={(signal) => ask(api.GET(secretsPath, { params: { path }, signal }))}
      replace={async (body, restart) =>
        (await ask(api.PATCH(secretsPath, { params: { path, query: { restart } }, body }))).message
      }
      mayWrite={mayWrite}
      about="Replicas see them as environment variables when they start. They override those of the project."
      restart="Restart the replicas, one after the other, so that they see it now"
    />
  );
}
