// Routes of runs: async runs and plain calls of apps, their results, and redriving and purging of
// dead runs.
import * as answers from "./answers.ts";
import { deadRunChoice, deadRunQuery, runQuery } from "./parameters.ts";
import { paths, type Route } from "./route.ts";

const runPath = `${paths.app}/runs/{run_id}` as const;
const deadRunsPath = `${paths.app}/dead-runs` as const;

/** By operation id; part of the table in `routes.ts`. */
export const runRoutes = {
  listRuns: {
    method: "GET",
    path: `${paths.app}/runs`,
    about:
      "The runs of an app, newest first: async runs, and plain calls that have ended. `callsLeftOut`: how many plain calls in the time range of the page were not recorded, because successful ones are a sample (SLIPWAY_CALL_RECORDS_PER_MINUTE) or there were too many at once; 0 with asyncOnly.",
    access: "runs.read",
    audit: null,
    query: runQuery,
    status: 200,
    answer: answers.runAndCallPage,
  },
  getRun: {
    method: "GET",
    path: runPath,
    about: "One run.",
    access: "runs.read",
    audit: null,
    status: 200,
    answer: answers.oneRun,
  },
  getRunResult: {
    method: "GET",
    path: `${runPath}/result`,
    about:
      "The app's answer to an async run, byte for byte with its content type; the header `Slipway-Status-Code` has the app's status. 409 while the run has not ended.",
    access: "runs.read",
    audit: null,
    status: 200,
    answer: answers.bytes,
    isBytes: true,
    isUsuallyJson: true,
  },
  cancelRun: {
    method: "DELETE",
    path: runPath,
    about:
      "Cancels an async run that has not ended, at any stage, and the build that a file run waits for; waits up to 10 seconds for its end, and shows its current state.",
    access: "runs.cancel",
    audit: "run.cancel",
    status: 200,
    answer: answers.oneRun,
  },
  redriveRun: {
    method: "POST",
    path: `${runPath}/redrive`,
    about:
      "Creates a new run from a failed one, with the same request and webhook. Each run can be redriven once.",
    access: "runs.redrive",
    audit: "runs.redrive",
    status: 201,
    answer: answers.redrivenRun,
  },
  listDeadRuns: {
    method: "GET",
    path: deadRunsPath,
    about:
      "The dead runs of an app, newest first: async runs that ended as failure or timeout, whose request is still kept, and that were not redriven.",
    access: "runs.read",
    audit: null,
    query: deadRunQuery,
    status: 200,
    answer: answers.runPage,
  },
  redriveDeadRuns: {
    method: "POST",
    path: `${deadRunsPath}/redrive`,
    about:
      "Creates new runs from dead ones, oldest first. `hasMore`: the request reached its time or its limit before all were processed.",
    access: "runs.redrive",
    audit: "runs.redrive",
    query: deadRunChoice,
    status: 200,
    answer: answers.redrivenRuns,
  },
  purgeDeadRuns: {
    method: "DELETE",
    path: deadRunsPath,
    about:
      "Deletes the stored requests of dead runs, oldest first: the runs stay listed, but can no longer be redriven.",
    access: "runs.redrive",
    audit: "runs.purge",
    query: deadRunChoice,
    status: 200,
    answer: answers.purgedRuns,
  },
} as const satisfies Record<string, Route>;
