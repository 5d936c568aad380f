// The durable steps of metering, for tests that kill the platform after each of them.

/** The steps in order. All but the last are within a transaction. */
export const meterSteps = [
  "slices written",
  "progress written",
  "usage posted",
  "usage counted",
] as const;
export type MeterStep = (typeof meterSteps)[number];
