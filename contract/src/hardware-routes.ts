// The route that lists what replicas can have here, and its answer.
import { z } from "zod";
import type { Route } from "./route.ts";

/** `GET /v2/hardware`. */
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
      gpuMemoryGb: z.number().nullable().meta({ description: "Of one GPU; null: none, or not known." }),
      price: z
        .object({ gpuSecond: z.number(), cpuSecond: z.number(), memoryGbSecond: z.number() })
        .meta({ description: "US dollars per second of one GPU, one core and one GB, for the tier interruptible." }),
    }),
  ),
});

/** By operation id. */
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
} as const satisfies Record<string, Route>;
