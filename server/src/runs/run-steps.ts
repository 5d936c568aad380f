// The durable steps of an async run, in order. A test kills the platform after each.

/** Each step is committed before it is reported. */
export const runSteps = [
  "run accepted",
  "run claimed",
  "run started",
  "run ended",
  "run given back",
  "run taken over",
] as const;

export type RunStep = (typeof runSteps)[number];

/** Called after each durable step; does nothing except in tests. */
export type OnRunStep = (step: RunStep) => void;
