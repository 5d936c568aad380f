// The route of charts of an app: what its replicas use, how many run, and how often it is called.
import { z } from "zod";
import type { Field } from "./field.ts";
import { replicaName, time } from "./parameters.ts";
import { paths, type Route } from "./route.ts";

const query = {
  start: {
    ...time("Points from this time on; at most 30 days ago."),
    defaultAbout: "an hour before end",
  },
  end: { ...time("Points before this time."), defaultAbout: "now" },
  containerId: replicaName("Only this replica, in cpu, memory and gpu."),
  resolution: {
    kind: "choice",
    toml: null,
    choices: ["medium", "high"],
    default: "medium",
    about:
      "How many points: medium, up to about 120; high, up to about 1,500, at most one a minute.",
  },
} as const satisfies Record<string, Field>;

const chart = z.strictObject({
  /** The start of each point's step. */
  timestamps: z.array(z.iso.datetime()),
  /** Each has a point for each of the timestamps; null: nothing was measured. */
  series: z.array(z.strictObject({ name: z.string(), data: z.array(z.string().nullable()) })),
});

/** The answer of `GET …/apps/{a}/resource-metrics`. */
export const resourceMetrics = z.strictObject({
  cpu: chart.meta({ description: "Cores, of each replica." }),
  memory: chart.meta({ description: "Bytes, of each replica." }),
  gpu: chart.meta({ description: "Utilization of a replica's GPUs, in percent." }),
  containers: chart.meta({ description: "How many replicas there were, and were ready." }),
  requests: chart.meta({ description: "How many calls arrived in the step." }),
  failures: chart.meta({
    description: "How many calls were answered with status 500 or above in the step, or cut off.",
  }),
  latency: chart.meta({
    description:
      "Milliseconds from the arrival of calls to the end of their answers, of those that ended in the step: p50, p95 and p99, estimated from counts of 19 ranges.",
  }),
  starts: chart.meta({
    description: "How many replicas started in the step, beside those that tried a release.",
  }),
});

/** By operation id; part of the table in `routes.ts`. */
export const metricsRoutes = {
  getResourceMetrics: {
    method: "GET",
    path: `${paths.app}/resource-metrics`,
    about:
      "What an app's replicas used, how many there were and started, and how many calls arrived, how long they took and how many failed, over at most the last 30 days, as points of equal steps. Measured once a minute; older than a day there is a point for a quarter of an hour or more. A series is named after its replica; those beyond 20 at once are together in `others`. An app without replicas and calls has no points.",
    access: "apps.read",
    audit: null,
    query,
    status: 200,
    answer: resourceMetrics,
  },
} as const satisfies Record<string, Route>;
