// Routes of runs: async runs and plain calls of apps, their results, and what can be done about dead runs.
import * as answers from "./answers.ts";
import { deadRunChoice, deadRunQuery, runQuery } from "./parameters.ts";
import { paths, type Route } from "./route.ts";

const runPath = `${paths.app}/runs/{run_id}`;
const deadRunsPath = `${paths.app}/dead-runs`;

/** By operation id; part of the table in `routes.ts`. */
export const runRoutes = {
  listRuns: {
    method: "GET",
    path: `${paths.app}/runs`,
    about:
      "The runs of an app, newest first: async runs, and plain calls that have ended. `callsLeftOut`: how many plain calls of the time that the page covers were not recorded, as there were too many at once; 0 with asyncOnly.",
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
      "What the app answered to an async run, byte by byte with its content type; the header `Slipway-Status-Code` holds the app's status. 409 while the run has not ended.",
    access: "runs.read",
    audit: null,
    status: 200,
    answer: answers.bytes,
    isBytes: true,
  },
  cancelRun: {
    method: "DELETE",
    path: runPath,
    about:
      "Asks for the end of an async run that has not ended, at whatever stage it is, waits up to 10 seconds for it, and shows the run as it is then.",
    access: "runs.cancel",
    audit: "run.cancel",
    status: 200,
    answer: answers.oneRun,
  },
  redriveRun: {
    method: "POST",
    path: `${runPath}/redrive`,
    about: "Makes a new run of one that failed, with the same request and webhook. Each run can be redriven once.",
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
      "Makes new runs of dead ones, the oldest first. `hasMore`: time or limit were up before all were dealt with.",
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
      "Deletes the kept requests of dead runs, the oldest first: they stay listed as runs, but cannot be redriven any more.",
    access: "runs.redrive",
    audit: "runs.purge",
    query: deadRunChoice,
    status: 200,
    answer: answers.purgedRuns,
  },
} as const satisfies Record<string, Route>;
