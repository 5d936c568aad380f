// The persistent storage of a project: its size, its folders page by page, and files to upload,
// download and remove.
import type { ReactNode } from "react";
import { Progress } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { FieldForm } from "#parts/form.tsx";
import { sizeText } from "#parts/quantities.ts";
import { Answer, useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { queryClient, slowRefreshMs } from "#queries.ts";
import { FolderView } from "./folder-view.tsx";
import { volumeOf, volumePath } from "./volume-upload.ts";

const volumesOf = (project: string, signal: AbortSignal) =>
  ask(
    api.GET("/v2/projects/{project_id}/volumes", {
      params: { path: { project_id: project } },
      signal,
    }),
  );

type Volume = Awaited<ReturnType<typeof volumesOf>>[number];

/** The page. */
export function VolumesPage(): ReactNode {
  const { project = "" } = useParams({ strict: false });
  const volumes = useQuery({
    queryKey: ["volumes", project],
    queryFn: ({ signal }) => volumesOf(project, signal),
    refetchInterval: slowRefreshMs,
  });
  useTitle("Volumes", project);
  return (
    <>
      <h1>Persistent storage</h1>
      <Answer of={volumes}>
        {(all) => all.map((volume) => <Size key={volume.id} project={project} volume={volume} />)}
      </Answer>
      <FolderView key={project} project={project} />
    </>
  );
}

type SizeProps = { readonly project: string; readonly volume: Volume };

function Size({ project, volume: { mountPath, sizeGb, usedBytes } }: SizeProps): ReactNode {
  const mayWrite = useMay(project)("volumes.write");
  const percent =
    sizeGb === null || usedBytes === null
      ? null
      : Math.min(100, (100 * usedBytes) / (sizeGb * 1e9));
  return (
    <>
      <p className="muted">
        All apps of the project share it at <code>{mountPath}</code>.
      </p>
      <div className="quota">
        <span>
          <strong>{usedBytes === null ? "Too many files to count" : sizeText(usedBytes)}</strong>
          {sizeGb === null ? " used; limited only by the disk" : ` used of ${sizeGb} GB`}
        </span>
        {percent === null ? null : (
          <Progress
            value={percent}
            color={percent > 90 ? "red" : "indigo"}
            size="sm"
            aria-label="Used"
          />
        )}
        {mayWrite ? (
          <details>
            <summary>Change the size</summary>
            <FieldForm
              key={sizeGb}
              label="Change the size"
              submit="Change size"
              fields={[
                {
                  name: "size",
                  label: "Size in GB",
                  hint: "Uploads beyond it are refused, and replicas that write beyond it are ended.",
                  type: "number",
                  min: 1,
                  step: 1,
                  autoComplete: "off",
                  required: true,
                  defaultValue: sizeGb === null ? "" : String(sizeGb),
                },
              ]}
              onSubmit={async ({ size }) => {
                const body = { newSizeGb: Number(size) };
                await ask(
                  api.PATCH(`${volumePath}/resize`, { params: { path: volumeOf(project) }, body }),
                );
                await queryClient.invalidateQueries({ queryKey: ["volumes"] });
              }}
            />
          </details>
        ) : null}
      </div>
    </>
  );
}
