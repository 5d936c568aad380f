// Throughput of our proxy compared with nginx and two proxies for node: the same upstream, the same
// load, one core each. Instead of the other proxies it can have our proxy of another checkout as
// the only peer, to see what a change costs.
import { createServer, type AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import type { TestContext } from "node:test";
import { temporaryFolder } from "@slipway/server/test/support/folder.ts";
import { benchPath, benchToken } from "./bench-app.ts";
import type { Benchmark } from "./harness/benchmark.ts";
import { startServer, type ServerProcess } from "./harness/child.ts";
import type { Context } from "./harness/context.ts";
import { findProgram, packageVersion, versionOf } from "./harness/programs.ts";
import { cpuSecondsOf } from "./harness/process-use.ts";
import { alternate } from "./harness/rounds.ts";
import { jsonHeaders, runLoad, type AppRequest } from "./harness/wrk.ts";
import { writePeerConfig, writeUpstreamConfig } from "./nginx-config.ts";
import { changeCost, comparison, peerTable, type PeerRound } from "./proxy-report.ts";

type ProxyOptions = {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: number;
  /** A folder with another checkout and its installed packages, to compare with; or empty. */
  readonly before: string;
};

/** Upstream and load generator share one core; each proxy has the other one for itself. */
const cores = { load: 0, proxy: 1 } as const;
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
    const starters = new Starters(context.t, nginx);
    const upstreamPort = await starters.startUpstream();
    const peers =
      before === ""
        ? await starters.startPeers(upstreamPort)
        : await starters.startCheckouts(upstreamPort, resolve(before));
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

/** Starts the servers of the benchmark, each proxy in front of the upstream. */
class Starters {
  readonly #t: TestContext;
  readonly #nginx: string;
  readonly #folder: string;

  constructor(t: TestContext, nginx: string) {
    this.#t = t;
    this.#nginx = nginx;
    this.#folder = temporaryFolder(t, "proxy");
  }

  async startUpstream(): Promise<number> {
    const port = await freePort();
    const config = writeUpstreamConfig(this.#folder, port);
    await startServer(this.#t, [this.#nginx, "-c", config], { core: cores.load, port });
    return port;
  }

  async startPeers(upstreamPort: number): Promise<Record<string, ServerProcess>> {
    return {
      slipway: await this.#startScript("our-proxy", upstreamPort),
      nginx: await this.#startNginx(upstreamPort),
      undici: await this.#startScript("undici-peer", upstreamPort),
      "http-proxy": await this.#startScript("http-proxy-peer", upstreamPort),
    };
  }

  async startCheckouts(
    upstreamPort: number,
    before: string,
  ): Promise<Record<string, ServerProcess>> {
    // The script may not move: older checkouts have it here too.
    const folder = join(before, "tools/bench");
    return {
      slipway: await this.#startScript("our-proxy", upstreamPort),
      "slipway before": await this.#startScript("our-proxy", upstreamPort, folder),
    };
  }

  /** A proxy that is a script of this folder, or of another one. */
  #startScript(
    name: string,
    upstreamPort: number,
    folder = import.meta.dirname,
  ): Promise<ServerProcess> {
    const file = join(folder, `${name}.ts`);
    const command = [process.execPath, file, String(upstreamPort)] as const;
    return startServer(this.#t, command, { core: cores.proxy });
  }

  async #startNginx(upstreamPort: number): Promise<ServerProcess> {
    const port = await freePort();
    const prefix = benchPath.replace(/[^/]*$/, "");
    const config = writePeerConfig(this.#folder, { port, upstreamPort }, prefix);
    return startServer(this.#t, [this.#nginx, "-c", config], { core: cores.proxy, port });
  }
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

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}
