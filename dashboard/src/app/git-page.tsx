// How pushes reach an app: its hook address with the steps at each git host, and the deliveries
// with what became of them.
import { useState, type ReactNode } from "react";
import { NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { api, ask, askIfThere } from "#api.ts";
import { Confirm } from "#parts/confirm.tsx";
import { Action } from "#parts/form.tsx";
import { Once } from "#parts/once.tsx";
import { Answer, Copyable, Facts, Time, useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import {
  appQuery,
  pathOf,
  queryClient,
  slowRefreshMs,
  type AppDetail,
  type AppRef,
} from "#queries.ts";
import { useApp } from "./app-frame.tsx";
import { GitCredentials } from "./git-credentials.tsx";
import { Deliveries } from "./git-deliveries.tsx";
import { repositoryOf } from "./overview-page.tsx";
import { ResumeDeploys } from "./releases-page.tsx";

const hookPath = "/v2/projects/{project_id}/apps/{app_id}/git-hook";

/** What to enter where, as in the guide to deploying. */
const hosts = {
  GitHub: [
    "Repository → Settings → Webhooks → Add webhook",
    "Payload URL: the address",
    "Content type: application/json",
    "Secret: the secret",
    'Events: "Just the push event"',
  ],
  "Gitea, Forgejo": [
    "Repository → Settings → Webhooks → Add webhook → Gitea (Forgejo)",
    "Target URL: the address; method POST, application/json",
    "Secret: the secret",
    "Trigger on: push events; branch filter: *",
  ],
  GitLab: [
    "Project → Settings → Webhooks → Add new webhook",
    "URL: the address",
    "Signing token, in older versions secret token: the secret",
    "Trigger: push events",
  ],
  Bitbucket: [
    "Repository → Repository settings → Webhooks → Add webhook",
    "URL: the address",
    "Secret: the secret",
    "Triggers: repository push",
  ],
} as const;
type Host = keyof typeof hosts;
const hostNames = Object.keys(hosts) as Host[];

/** The page. */
export function GitPage(): ReactNode {
  const ref = useApp();
  const app = useQuery(appQuery(ref));
  const mayChange = useMay(ref.project)("apps.update");
  const repository = app.data?.gitRepo;
  useTitle("Git", ref.app);
  return (
    <>
      <Answer of={app}>
        {(detail) => (
          <Facts
            of={[
              ["Repository", repositoryOf(detail)],
              ["Deploys", deploysOf(detail)],
            ]}
          />
        )}
      </Answer>
      {typeof app.data?.autoDeployPausedAt === "string" && mayChange ? <ResumeDeploys /> : null}
      {repository === undefined ? null : <Pushes repository={repository} mayChange={mayChange} />}
    </>
  );
}

type PushesProps = { readonly repository: string | null; readonly mayChange: boolean };

/** How pushes arrive. */
function Pushes({ repository, mayChange }: PushesProps): ReactNode {
  const { project } = useApp();
  if (repository === null) {
    return <p className="muted">To deploy its pushes, set gitRepo on the page Settings.</p>;
  }
  return (
    <>
      <h2>Hook</h2>
      <Hook mayChange={mayChange} />
      <h2>Deliveries</h2>
      <Deliveries />
      <GitCredentials project={project} repository={repository} />
    </>
  );
}

/** What pushes do. */
function deploysOf({
  autoDeployPausedAt,
  gitRepo,
  settings,
}: Pick<AppDetail, "autoDeployPausedAt" | "gitRepo" | "settings">): ReactNode {
  if (gitRepo === null) return "nothing: the app has no repository";
  if (autoDeployPausedAt !== null) {
    return (
      <>
        paused since <Time at={autoDeployPausedAt} />
      </>
    );
  }
  return settings["gitAutoDeploy"]?.value === false
    ? "nothing: gitAutoDeploy is false"
    : "each push to the branch";
}

/** The address; null: the app has none. */
const hookOf = (ref: AppRef, signal: AbortSignal) =>
  askIfThere(api.GET(hookPath, { params: { path: pathOf(ref) }, signal }));

function Hook({ mayChange }: { readonly mayChange: boolean }): ReactNode {
  const ref = useApp();
  const [secret, setSecret] = useState<string | null>(null);
  const hook = useQuery({
    queryKey: ["git-hook", ref],
    queryFn: ({ signal }) => hookOf(ref, signal),
    refetchInterval: slowRefreshMs,
  });
  const make = async (): Promise<void> => {
    setSecret((await ask(api.POST(hookPath, { params: { path: pathOf(ref) } }))).secret);
    await queryClient.invalidateQueries({ queryKey: ["git-hook"] });
  };
  return (
    <Answer of={hook}>
      {(found) =>
        found === null ? (
          <>
            <p className="muted">
              Pushes are found by asking the git host from time to time. With a hook it tells of
              each at once.
            </p>
            {mayChange ? <Action onAct={make}>Make a hook address</Action> : null}
          </>
        ) : (
          <>
            <Copyable label="the hook address" text={found.url} />
            {secret === null ? null : (
              <Once label="the secret" text={secret}>
                The secret. It is shown only now: copy it.
              </Once>
            )}
            <Facts
              of={[
                ["Made", <Time key="made" at={found.createdAt} />],
                [
                  "New secret",
                  found.rotatedAt === null ? "never" : <Time key="rotated" at={found.rotatedAt} />,
                ],
                [
                  "Last delivery",
                  found.lastDeliveryAt === null ? (
                    "none yet: pushes are found by asking the git host until one comes"
                  ) : (
                    <Time key="last" at={found.lastDeliveryAt} />
                  ),
                ],
              ]}
            />
            <Steps />
            {mayChange ? (
              <Confirm
                what="Make a new secret"
                to="of the hook"
                note="The old secret is invalid at once: enter the new one at the git host."
                onAct={make}
              />
            ) : null}
          </>
        )
      }
    </Answer>
  );
}

function Steps(): ReactNode {
  const [host, setHost] = useState<Host>("GitHub");
  return (
    <div className="narrow">
      <NativeSelect
        label="Set it up at"
        value={host}
        data={hostNames}
        onChange={(event) =>
          setHost(hostNames.find((one) => one === event.currentTarget.value) ?? "GitHub")
        }
      />
      <ol className="steps">
        {hosts[host].map((step) => (
          <li key={step}>{step}</li>
        ))}
      </ol>
    </div>
  );
}
