// The durable steps of metering, which tests kill the platform behind.

/** By the order in which they come. All but the last are within a transaction. */
export const meterSteps = ["slices written", "progress written", "usage posted", "usage counted"] as const;
export type MeterStep = (typeof meterSteps)[number];
