// Cleanup after a test in the right order. `t.after` hooks run in registration order, so a folder
// or database that a test requested first would be removed before what the test opened in it. Steps
// registered here run after all hooks of `t.after`, in reverse registration order.

/** The part of a test's context that is needed here; `node:test` passes it to each test. */
export type WithAfter = { after(run: () => Promise<void> | void): void };

type Step = () => Promise<void> | void;

const stepsOf = new WeakMap<WithAfter, Step[]>();

/**
 * Runs `step` after the test and after everything that the test itself closes. All steps run, even
 * if one fails.
 */
export function cleanLast(t: WithAfter, step: Step): void {
  const known = stepsOf.get(t);
  if (known !== undefined) {
    known.push(step);
    return;
  }
  const steps = [step];
  stepsOf.set(t, steps);
  // A hook that is registered while hooks run is appended to the list.
  t.after(() => t.after(() => runAll(steps)));
}

async function runAll(steps: Step[]): Promise<void> {
  const failures: unknown[] = [];
  for (let step = steps.pop(); step !== undefined; step = steps.pop()) {
    try {
      await step();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw new AggregateError(failures, "a test could not be cleaned up");
}
