// `slipway replicas`: the running replicas of an app.
import { answerOf } from "@slipway/client/client.ts";
import { listCommand } from "./resource.ts";
import { bytesText } from "./sizes.ts";
import { moment, state } from "./table.ts";

/** Lists replicas. */
export const listReplicas = listCommand({
  name: "replicas",
  about: "List the replicas of an app that run now, with what they use.",
  examples: ["replicas hello"],
  of: "app",
  items: ({ api, path }) =>
    answerOf(api.GET("/v2/projects/{project_id}/apps/{app_id}/containers", { params: { path } })),
  columns: {
    REPLICA: ({ containerId }) => containerId,
    STATE: ({ containerState }) => state(containerState),
    STARTED: ({ containerStartTimestamp }) => moment(containerStartTimestamp),
    CORES: ({ usage }) => usage?.cpuCores?.toFixed(2) ?? null,
    MEMORY: ({ usage }) => (usage === null ? null : bytesText(usage.memoryBytes)),
    POOL: ({ hardwareProvider, region }) => [hardwareProvider, region].filter((one) => one !== null).join("/"),
    BUILD: ({ buildId }) => buildId,
  },
  none: "The app has no replicas now. The next call starts one.",
});
