// Throughput of our proxy compared with nginx and two proxies for node: the same upstream, the same
// load, one core each. Instead of the other proxies it can have our proxy of another checkout as
// the only peer, to see what a change costs.
import { join, resolve } from "node:path";
import { benchPath, benchToken } from "./bench-app.ts";
import type { Benchmark } from "./harness/benchmark.ts";
import type { ServerProcess } from "./harness/child.ts";
import type { Context } from "./harness/context.ts";
import { findProgram, packageVersion, versionOf } from "./harness/programs.ts";
import { cpuSecondsOf } from "./harness/process-use.ts";
import { alternate } from "./harness/rounds.ts";
import { jsonHeaders, runLoad, type AppRequest } from "./harness/wrk.ts";
import { cores, ProxyPeers } from "./proxy-peers.ts";
import { changeCost, comparison, peerTable, type PeerRound } from "./proxy-report.ts";

type ProxyOptions = {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: number;
  /** A folder with another checkout and its installed packages, to compare with; or empty. */
  readonly before: string;
};

/** Long enough for node to compile hot code. */
const warmSeconds = 4;
const scenarios: readonly Scenario[] = [
  { name: "GET, no body", body: null, headers: {} },
  {
    name: "POST, JSON of 100 bytes",
    body: JSON.stringify({ prompt: "x".repeat(87) }),
    headers: jsonHeaders,
  },
  {
    name: "GET that asks for trailers, so it is not a plain call",
    body: null,
    headers: { TE: "trailers" },
  },
];

type Scenario = { readonly name: string } & Pick<AppRequest, "body" | "headers">;

/** `proxy`. It needs a second core. */
export const proxy: Benchmark<ProxyOptions> = {
  name: "proxy",
  measures: "How many calls the proxy handles on one core",
  heading: "Proxy",
  options: { rounds: 7, seconds: 4, connections: 64, before: "" },
  async run(options, context) {
    const { rounds, seconds, connections, before } = options;
    const nginx = findProgram("nginx");
    const wrk = findProgram("wrk");
    findProgram("taskset");
    const peers = await startPeers(new ProxyPeers(context.t, nginx), before);
    const body: string[] = [];
    for (const scenario of scenarios) {
      const measured = await runScenario(scenario, peers, { options, context });
      const summary = before === "" ? comparison(measured) : changeCost(measured);
      context.print(`${scenario.name}: ${summary}`);
      body.push(`### ${scenario.name}`, "", ...peerTable(measured), summary, "");
    }
    return {
      conditions: `${rounds} rounds of ${seconds} s, alternating, ${connections} keep-alive connections.`,
      versions: [
        versionOf(nginx, "-v").replace("nginx version: ", "").replace("/", " "),
        versionOf(wrk, "-v").replace(/ \[.*/, ""),
        ...["undici", "http-proxy"].map((name) => `${name} ${packageVersion(name)}`),
      ],
      body,
      isForDocument: before === "",
    };
  },
};

/** The servers by their names. With `before`, the only peer is that of the checkout there. */
async function startPeers(
  peers: ProxyPeers,
  before: string,
): Promise<Readonly<Record<string, ServerProcess>>> {
  await peers.startUpstream();
  const slipway = await peers.startSlipway();
  if (before !== "") {
    // The script may not move: older checkouts have it here too.
    const folder = join(resolve(before), "tools/bench");
    return { slipway, "slipway before": await peers.startScript("our-proxy", [], folder) };
  }
  return {
    slipway,
    nginx: await peers.startNginx(),
    undici: await peers.startScript("undici-peer"),
    "http-proxy": await peers.startScript("http-proxy-peer"),
  };
}

async function runScenario(
  { body, headers }: Scenario,
  peers: Readonly<Record<string, ServerProcess>>,
  { options, context }: { readonly options: ProxyOptions; readonly context: Context },
): Promise<Record<string, PeerRound[]>> {
  const { rounds, connections } = options;
  const { print } = context;
  const load = async ({ pid, port }: ServerProcess, round: number): Promise<PeerRound> => {
    const seconds = round > 0 ? options.seconds : warmSeconds;
    const url = `http://127.0.0.1:${port}${benchPath}`;
    const request = { url, token: benchToken, body, headers };
    const cpuBefore = cpuSecondsOf(pid);
    const measured = await runLoad(request, { seconds, connections, core: cores.load });
    const cpuUs = (cpuSecondsOf(pid) - cpuBefore) * 1e6;
    if (measured.failures > 0) print(`  ${measured.failures} of ${measured.calls} calls failed`);
    return { ...measured, cpuUsPerCall: cpuUs / measured.calls };
  };
  const cases = Object.entries(peers).map(
    ([name, peer]) => [name, (round: number) => load(peer, round)] as const,
  );
  const show = ({ callsPerSecond, cpuUsPerCall }: PeerRound): string =>
    `${Math.round(callsPerSecond)} calls/s, ${cpuUsPerCall.toFixed(1)} µs`;
  return await alternate(Object.fromEntries(cases), { rounds, print, show });
}
