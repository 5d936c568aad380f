// What the management API says of replicas: those that run, what they use, and those that have
// stopped.
import { z } from "zod";

const time = z.iso.datetime();

/**
 * What a replica uses now. Null: not measured here; cores, the mean of the last seconds, also at
 * the first measurement.
 */
export const replicaUse = z.strictObject({
  cpuCores: z.number().nullable(),
  memoryBytes: z.int(),
  /** Bytes received since the replica's start. */
  networkReceivedBytes: z.int().nullable(),
  networkSentBytes: z.int().nullable(),
  /** The use of the replica's GPUs, from 0 to 1. */
  gpuUtilization: z.number().nullable(),
  gpuMemoryBytes: z.int().nullable(),
});

/**
 * Running replicas only; stopped ones are not listed. `usage` is ours, null for one that could not
 * be measured.
 */
export const containerList = z.array(
  z.strictObject({
    appId: z.string(),
    projectId: z.string(),
    containerId: z.string(),
    containerState: z.enum(["PENDING", "RUNNING", "TERMINATING"]),
    timestamp: time,
    containerStartTimestamp: time.nullable(),
    containerTerminationTimestamp: time.nullable(),
    containerRunningTimeMs: z.int(),
    containerRestartCount: z.int(),
    hostIp: z.string().nullable(),
    containerIp: z.string().nullable(),
    hardwareProvider: z.string().nullable(),
    region: z.string().nullable(),
    buildId: z.uuid(),
    isTerminating: z.boolean(),
    usage: replicaUse.nullable(),
  }),
);

/** Replicas that have stopped. */
export const endedContainerList = z.array(
  z.strictObject({
    containerId: z.string(),
    buildId: z.uuid(),
    createdAt: time,
    /** Null: it never started. */
    startedAt: time.nullable(),
    endedAt: time,
    /** What it was started for: calls, or to try a build before it becomes a release. */
    startedFor: z.enum(["calls", "trial"]),
    reason: z.string().nullable().meta({ description: "Why it ended." }),
    exitCode: z.int().nullable(),
  }),
);
