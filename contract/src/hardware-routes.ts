// The routes that list what replicas can have here, for everybody, and how much of it is free, for
// operators; and their answers.
import { z } from "zod";
import type { Route } from "./route.ts";

/** The answer of `GET /v2/hardware`. */
export const hardwareAnswer = z.object({
  items: z.array(
    z.object({
      compute: z.string(),
      pool: z.string(),
      provider: z.string().nullable().meta({ description: "Null: every provider." }),
      region: z.string().nullable().meta({ description: "Null: every region." }),
      tier: z.string().meta({ description: "interruptible: protected replicas do not run there." }),
      maxCpu: z.number().meta({ description: "The most cores that one replica can have." }),
      maxMemoryGb: z.number(),
      maxGpuCount: z.number().meta({ description: "Cards that do not answer are not counted." }),
      gpuMemoryGb: z
        .number()
        .nullable()
        .meta({ description: "Of one GPU; null: none, or not known." }),
      price: z
        .object({ gpuSecond: z.number(), cpuSecond: z.number(), memoryGbSecond: z.number() })
        .meta({
          description:
            "US dollars per second of one GPU, one core and one GB, for the tier interruptible.",
        }),
    }),
  ),
});

/** The answer of `GET /v2/operator/platform`. */
export const platformAnswer = z.strictObject({
  version: z.string(),
  driver: z.string(),
  database: z
    .strictObject({
      bytes: z.int().min(0),
      tables: z
        .array(z.strictObject({ name: z.string(), bytes: z.int().min(0) }))
        .meta({ description: "The ten largest with their indexes, the largest first." }),
      since: z.iso.datetime().meta({ description: "When the platform was started." }),
      bytesThen: z.int().min(0).meta({ description: "Its size at that time." }),
    })
    .meta({
      description: "How large the database is. What was deleted is used again before it grows.",
    }),
  pools: z.array(
    z.strictObject({
      name: z.string(),
      provider: z.string().nullable(),
      region: z.string().nullable(),
      tier: z.string(),
      cores: z
        .number()
        .meta({ description: "What replicas may have together, overcommitment included." }),
      freeCores: z.number().meta({ description: "Negative after the pool was made smaller." }),
      memoryGb: z.number(),
      freeMemoryGb: z.number(),
      gpus: z.array(
        z.strictObject({ compute: z.string(), count: z.int(), usable: z.int(), free: z.int() }),
      ),
      replicas: z.int().meta({ description: "Replicas that have something of it." }),
      apps: z
        .array(
          z.strictObject({
            projectId: z.string(),
            appId: z.string(),
            name: z.string(),
            replicas: z.int(),
          }),
        )
        .meta({ description: "Whose replicas they are, the most first." }),
    }),
  ),
});

/** The routes of hardware, by operation id. */
export const hardwareRoutes = {
  getHardware: {
    method: "GET",
    path: "/v2/hardware",
    about:
      "What replicas can have on this platform: an entry for each compute type of each pool, whether it is in use or not.",
    access: "public",
    audit: null,
    status: 200,
    answer: hardwareAnswer,
  },
  getOperatorPlatform: {
    method: "GET",
    path: "/v2/operator/platform",
    about:
      "The platform's version and driver, the size of its database, and its pools with what is free of them and which apps have replicas there. Operators only.",
    access: "platform.manage",
    audit: null,
    status: 200,
    answer: platformAnswer,
  },
} as const satisfies Record<string, Route>;
