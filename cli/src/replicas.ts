// `slipway replicas`: the running replicas of an app.
import { answerOf } from "@slipway/client/client.ts";
import { listCommand } from "./resource.ts";
import { bytesText } from "./sizes.ts";
import { moment, state } from "./table.ts";

const route = "/v2/projects/{project_id}/apps/{app_id}" as const;

/** Lists replicas. */
export const listReplicas = listCommand({
  name: "replicas",
  about: "List the replicas of an app that run now, with what they use.",
  examples: ["replicas hello"],
  of: "app",
  async items({ api, path }) {
    const [replicas, { items }] = await Promise.all([
      answerOf(api.GET(`${route}/containers`, { params: { path } })),
      answerOf(api.GET(`${route}/releases`, { params: { path } })),
    ]);
    // Several releases can be of one build: they have the same files.
    const releaseOf = Map.groupBy(items, ({ buildId }) => buildId);
    return replicas.map((one) => ({
      ...one,
      releases: releaseOf.get(one.buildId)?.map(({ number }) => number) ?? [],
    }));
  },
  columns: {
    REPLICA: ({ containerId }) => containerId,
    // One that is too old for the list has its build.
    RELEASE: ({ releases, buildId }) =>
      releases.length === 0
        ? `build ${buildId.slice(-8)}`
        : releases.map((number) => `v${number}`).join(", "),
    STATE: ({ containerState }) => state(containerState),
    STARTED: ({ containerStartTimestamp }) => moment(containerStartTimestamp),
    CORES: ({ usage }) => usage?.cpuCores?.toFixed(2) ?? null,
    MEMORY: ({ usage }) => (usage === null ? null : bytesText(usage.memoryBytes)),
    POOL: ({ hardwareProvider, region }) =>
      [hardwareProvider, region].filter((one) => one !== null).join("/"),
  },
  none: "The app has no replicas now. The next call starts one.",
});
