// All benchmarks, in the order in which they are listed.
import { asyncRuns } from "./async/async-bench.ts";
import { audit } from "./audit/audit-bench.ts";
import { coldStart } from "./cold-start.ts";
import { dashboard } from "./dashboard.ts";
import { dockerCalls } from "./docker-calls.ts";
import { dockerColdStart } from "./docker-cold-start.ts";
import { dockerFleet } from "./docker-fleet.ts";
import type { Benchmark } from "./harness/benchmark.ts";
import { proxy } from "./proxy-bench.ts";
import { dockerPush, push } from "./push.ts";
import { rollOut } from "./roll-out.ts";
import { rollback } from "./rollback.ts";
import { step } from "./step.ts";
import { tls } from "./tls-bench.ts";
import { uploads } from "./uploads.ts";
import { usage } from "./usage.ts";
import { volumes } from "./volumes.ts";
import { zygotes } from "./zygotes.ts";

/** The benchmarks of `main.ts` and docs/benchmarks.md. */
export const benchmarks: readonly Benchmark[] = [
  proxy,
  tls,
  coldStart,
  zygotes,
  step,
  rollback,
  push,
  rollOut,
  asyncRuns,
  audit,
  usage,
  dockerColdStart,
  dockerPush,
  dockerCalls,
  dockerFleet,
  uploads,
  volumes,
  dashboard,
];
