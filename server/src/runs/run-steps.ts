// The durable steps of an async run, in the order in which a run takes them. A test ends the platform after each.

/** Each step has been committed when it is told. */
export const runSteps = [
  "run accepted",
  "run claimed",
  "run started",
  "run ended",
  "run given back",
  "run taken over",
] as const;

export type RunStep = (typeof runSteps)[number];

/** Told of each durable step; does nothing but in tests. */
export type OnRunStep = (step: RunStep) => void;
