// `node tools/bench/main.ts proxy`, `cold-start`, `step`, `async`, `audit`, `usage`, `push`,
// `rollback`, `roll-out`, `docker`, `docker-fleet`, `docker-calls`, `uploads`, `volumes` or
// `dashboard`: measures, prints, and writes docs/benchmarks.md. Options: --rounds=7 --no-write; for
// proxy, async and docker-calls --seconds=4 --connections=64; for proxy --before=<checkout>, which
// compares with the proxy of another checkout and does not write; for audit --rows=10000000
// --projects=50; for docker… and push --docker-host=unix:///var/run/docker.sock (push uses the
// process driver without it); for usage --apps=1000; for uploads and volumes --files=100000
// --megabytes=5000; for dashboard --runs=100000 --lines=1000000; for step and roll-out --rate
// --seconds=4.
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { benchAsync } from "./async/async-bench.ts";
import { asyncSection } from "./async/async-report.ts";
import { benchAudit } from "./audit/audit-bench.ts";
import { auditSection } from "./audit/audit-report.ts";
import { benchColdStart } from "./cold-start.ts";
import { benchDashboard, dashboardSection } from "./dashboard.ts";
import { benchDocker, dockerSection, dockerSettings } from "./docker.ts";
import { benchCalls, callsSection } from "./docker-calls.ts";
import { benchFleet, fleetSection } from "./docker-fleet.ts";
import { benchProxies } from "./proxy-bench.ts";
import { benchPush, pushSection } from "./push.ts";
import {
  changeCost,
  coldStartSection,
  comparison,
  machine,
  proxySection,
  writeSection,
} from "./report.ts";
import { benchRollOut, rollOutSection } from "./roll-out.ts";
import { benchRollback, rollbackSection } from "./rollback.ts";
import { stepSection } from "./step-report.ts";
import { benchStep } from "./step.ts";
import { benchUploads, uploadsSection } from "./uploads.ts";
import { benchUsage } from "./usage/usage-bench.ts";
import { usageSection } from "./usage/usage-report.ts";
import { benchVolumes, volumesSection } from "./volumes.ts";

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string", default: "7" },
    seconds: { type: "string", default: "4" },
    connections: { type: "string", default: "64" },
    rows: { type: "string", default: "10000000" },
    projects: { type: "string", default: "50" },
    apps: { type: "string", default: "1000" },
    rate: { type: "string" },
    files: { type: "string", default: "100000" },
    runs: { type: "string", default: "100000" },
    lines: { type: "string", default: "1000000" },
    megabytes: { type: "string", default: "5000" },
    "docker-host": { type: "string" },
    before: { type: "string" },
    "no-write": { type: "boolean", default: false },
  },
});

const print = (line: string): void => console.log(line);
const rounds = Number(values.rounds);

async function proxy(): Promise<string> {
  const options = {
    rounds,
    seconds: Number(values.seconds),
    connections: Number(values.connections),
    before: values.before === undefined ? null : resolve(values.before),
  };
  const result = await benchProxies(options, print);
  const summary = options.before === null ? comparison : changeCost;
  for (const { name, peers } of result.scenarios) print(`${name}: ${summary(peers)}`);
  return proxySection(result, options);
}

async function coldStart(): Promise<string> {
  const section = coldStartSection(await benchColdStart({ rounds }, print));
  print(section);
  return section;
}

async function step(): Promise<string> {
  const options = { rounds, rate: Number(values.rate ?? 1000), seconds: Number(values.seconds) };
  const section = stepSection(await benchStep(options, print), options);
  print(section);
  return section;
}

async function asyncRuns(): Promise<string> {
  const options = {
    rounds,
    seconds: Number(values.seconds),
    connections: Number(values.connections),
  };
  const section = asyncSection(await benchAsync(options, print), options);
  print(section);
  return section;
}

async function audit(): Promise<string> {
  const options = { rows: Number(values.rows), projects: Number(values.projects), rounds };
  const section = auditSection(await benchAudit(options, print), options);
  print(section);
  return section;
}

async function usage(): Promise<string> {
  const options = { apps: Number(values.apps), rounds };
  const section = usageSection(await benchUsage(options, print), options);
  print(section);
  return section;
}

async function push(): Promise<string> {
  const host = values["docker-host"];
  const settings = host === undefined ? {} : dockerSettings(host);
  const title = host === undefined ? "Push to live" : "Push to live with Docker";
  const section = pushSection(title, await benchPush({ rounds, settings }, print), machine());
  print(section);
  return section;
}

async function docker(): Promise<string> {
  const host = values["docker-host"] ?? "unix:///var/run/docker.sock";
  const section = dockerSection(await benchDocker({ rounds, host }, print), machine());
  print(section);
  return section;
}

async function dockerFleet(): Promise<string> {
  const host = values["docker-host"] ?? "unix:///var/run/docker.sock";
  const section = fleetSection(await benchFleet({ rounds, host }, print), machine());
  print(section);
  return section;
}

async function dockerCalls(): Promise<string> {
  const host = values["docker-host"] ?? "unix:///var/run/docker.sock";
  const options = {
    rounds,
    seconds: Number(values.seconds),
    connections: Number(values.connections),
    host,
  };
  const section = callsSection(await benchCalls(options, print), options, machine());
  print(section);
  return section;
}

async function uploads(): Promise<string> {
  const options = { files: Number(values.files), megabytes: Number(values.megabytes) };
  const section = uploadsSection(await benchUploads(options, print), machine());
  print(section);
  return section;
}

async function rollback(): Promise<string> {
  const section = rollbackSection(await benchRollback({ rounds }, print));
  print(section);
  return section;
}

async function rollOut(): Promise<string> {
  const options = { rounds, rate: Number(values.rate ?? 300), seconds: Number(values.seconds) };
  const section = rollOutSection(await benchRollOut(options, print), options);
  print(section);
  return section;
}

async function volumes(): Promise<string> {
  const options = { files: Number(values.files), megabytes: Number(values.megabytes) };
  const section = volumesSection(await benchVolumes(options, print));
  print(section);
  return section;
}

async function dashboard(): Promise<string> {
  const options = { rounds, runs: Number(values.runs), lines: Number(values.lines) };
  const section = dashboardSection(await benchDashboard(options, print));
  print(section);
  return section;
}

const benchmarks: Readonly<Record<string, () => Promise<string>>> = {
  proxy,
  "cold-start": coldStart,
  step,
  async: asyncRuns,
  audit,
  usage,
  push,
  rollback,
  "roll-out": rollOut,
  uploads,
  docker,
  "docker-fleet": dockerFleet,
  "docker-calls": dockerCalls,
  volumes,
  dashboard,
};
const [what = ""] = positionals;
const bench = benchmarks[what];
if (bench === undefined) {
  console.error(`What to measure? ${Object.keys(benchmarks).join(", ")}`);
  process.exit(1);
}
const section = await bench();
if (!values["no-write"] && values.before === undefined) writeSection(section);
