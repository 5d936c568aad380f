// The slowest test files, the slowest first. The runner starts with them, so that none runs alone at the end. The order affects
// only the duration; a file that is not listed runs after them.

/** By path in the project. */
export const slowFiles: readonly string[] = [
  "server/test/faults-clock.test.ts",
  "server/test/drivers-process.test.ts",
  "server/test/async-crash-points.test.ts",
  "server/test/hostile-repositories.test.ts",
  "server/test/build.test.ts",
  "server/test/examples.test.ts",
  "server/test/faults-database.test.ts",
  "server/test/async-runs.test.ts",
  "server/test/upgrade-data-folder.test.ts",
  "server/test/guide-async.test.ts",
  "server/test/faults-platform.test.ts",
  "server/test/faults-clients.test.ts",
  "server/test/audit-log-keeping.test.ts",
  "server/test/async-chaos.test.ts",
  "server/test/callers.test.ts",
  "server/test/audit-forwarding-kill.test.ts",
  "server/test/budgets-platform.test.ts",
  "server/test/usage-platform.test.ts",
  "server/test/tour.test.ts",
  "server/test/restart.test.ts",
  "server/test/guide-people.test.ts",
  "server/test/hostile-browser.test.ts",
  "server/test/hostile-app.test.ts",
  "server/sim/runs/simulation.test.ts",
];
