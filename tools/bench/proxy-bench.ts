// Throughput of our proxy compared with nginx and two proxies for node: the same upstream, the same
// load, one core each, in interleaved rounds, so that other load on the machine affects all alike.
// Instead of the other proxies it can have our proxy of another checkout as the only peer, to see
// what a change costs.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { benchPath, benchToken } from "./bench-app.ts";
import { startChild, type Child } from "./child.ts";
import { runLoad, type Asked, type Load } from "./load.ts";
import { writePeerConfig, writeUpstreamConfig } from "./nginx-config.ts";
import { findProgram, installPackages } from "./programs.ts";

/** One peer's rounds. */
export type PeerResult = {
  readonly name: string;
  readonly rounds: readonly (Load & { readonly cpuUsPerCall: number })[];
};

/** The peers for one kind of call. */
export type ScenarioResult = { readonly name: string; readonly peers: readonly PeerResult[] };

/** All results, and which peers were left out and why. */
export type ProxyResult = {
  readonly scenarios: readonly ScenarioResult[];
  readonly skipped: readonly string[];
};

/** Duration and number of rounds. */
export type ProxyBenchOptions = {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: number;
  /** A folder with another checkout and its installed packages, to compare with; or null. */
  readonly before: string | null;
};

/** Upstream and load generator share one core; each proxy has the other one for itself. */
const cores = { load: 0, proxy: 1 } as const;
/** Long enough for node to compile hot code. */
const warmSeconds = 4;
const scenarios: readonly Scenario[] = [
  { name: "GET, no body", body: null, fields: {} },
  {
    name: "POST, JSON of 100 bytes",
    body: JSON.stringify({ prompt: "x".repeat(87) }),
    fields: { "Content-Type": "application/json" },
  },
  {
    name: "GET that asks for trailers, so it is not a plain call",
    body: null,
    fields: { TE: "trailers" },
  },
];

type Scenario = { readonly name: string } & Pick<Asked, "body" | "fields">;

/** Runs the benchmark; prints as it goes. Rejects without wrk or a second core. */
export async function benchProxies(
  options: ProxyBenchOptions,
  print: (line: string) => void,
): Promise<ProxyResult> {
  const skipped: string[] = [];
  const missing = ["wrk", "nginx"].filter((name) => findProgram(name) === null);
  if (missing.length > 0) {
    const why = installPackages(missing.map((name) => (name === "nginx" ? "nginx-light" : name)));
    if (why !== null) print(`missing: ${missing.join(", ")} (${why})`);
  }
  if (findProgram("wrk") === null || findProgram("taskset") === null) {
    throw new Error(
      "this benchmark needs wrk and taskset; install the packages wrk and util-linux",
    );
  }
  const nginx = findProgram("nginx");
  if (nginx === null)
    throw new Error(
      "this benchmark needs nginx, its upstream and first peer; install the package nginx",
    );
  const folder = mkdtempSync(join(tmpdir(), "slipway-bench-"));
  const open: Child[] = [];
  try {
    const upstreamPort = await freePort();
    open.push(
      await startChild([nginx, "-c", writeUpstreamConfig(folder, upstreamPort)], {
        core: cores.load,
        port: upstreamPort,
      }),
    );
    const peers = new Map<string, Child>();
    const chosen =
      options.before === null
        ? starters(nginx, folder, upstreamPort)
        : checkouts(options.before, upstreamPort);
    for (const [name, start] of chosen) {
      try {
        peers.set(name, await start());
      } catch (error) {
        skipped.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
        print(`skipped ${skipped.at(-1)}`);
      }
    }
    open.push(...peers.values());
    const results: ScenarioResult[] = [];
    for (const scenario of scenarios)
      results.push(await runScenario(scenario, peers, { ...options, folder }, print));
    return { scenarios: results, skipped };
  } finally {
    for (const child of open.reverse()) await child.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

type Start = () => Promise<Child>;

/** Starts a proxy that is a script of this folder, or of another one. */
function script(name: string, upstreamPort: number, folder = import.meta.dirname): Start {
  const file = join(folder, `${name}.ts`);
  return () =>
    startChild([process.execPath, file, String(upstreamPort)], { core: cores.proxy, port: null });
}

function checkouts(before: string, upstreamPort: number): [string, Start][] {
  return [
    ["slipway", script("our-proxy", upstreamPort)],
    ["slipway before", script("our-proxy", upstreamPort, join(before, "tools/bench"))],
  ];
}

function starters(nginx: string, folder: string, upstreamPort: number): [string, Start][] {
  const startNginx: Start = async () => {
    const port = await freePort();
    const prefix = benchPath.replace(/[^/]*$/, "");
    return startChild([nginx, "-c", writePeerConfig(folder, { port, upstreamPort }, prefix)], {
      core: cores.proxy,
      port,
    });
  };
  return [
    ["slipway", script("our-proxy", upstreamPort)],
    ["nginx", startNginx],
    ["undici", script("undici-peer", upstreamPort)],
    ["http-proxy", script("http-proxy-peer", upstreamPort)],
  ];
}

type ScenarioOptions = ProxyBenchOptions & { readonly folder: string };

async function runScenario(
  { name, body, fields }: Scenario,
  peers: ReadonlyMap<string, Child>,
  { rounds, seconds, connections, folder }: ScenarioOptions,
  print: (line: string) => void,
): Promise<ScenarioResult> {
  const load = async (child: Child, forSeconds: number): Promise<Load> => {
    const asked = {
      url: `http://127.0.0.1:${child.port}${benchPath}`,
      token: benchToken,
      body,
      fields,
    };
    const measured = await runLoad(asked, {
      seconds: forSeconds,
      connections,
      core: cores.load,
      folder,
    });
    if (measured.failures > 0) print(`  ${measured.failures} of ${measured.calls} calls failed`);
    return measured;
  };
  for (const child of peers.values()) await load(child, warmSeconds);
  const measured = new Map<string, PeerResult["rounds"][number][]>();
  for (let round = 1; round <= rounds; round++) {
    // The order alternates, so that what follows a round of load affects all alike.
    const inOrder = round % 2 === 1 ? [...peers] : [...peers].toReversed();
    for (const [peer, child] of inOrder) {
      const before = child.cpuSeconds();
      const one = await load(child, seconds);
      const cpuUsPerCall = ((child.cpuSeconds() - before) * 1e6) / one.calls;
      measured.set(peer, [...(measured.get(peer) ?? []), { ...one, cpuUsPerCall }]);
      print(
        `${name}, round ${round}: ${peer} ${Math.round(one.callsPerSecond)} calls/s, ${cpuUsPerCall.toFixed(1)} µs`,
      );
    }
  }
  return { name, peers: [...measured].map(([peer, list]) => ({ name: peer, rounds: list })) };
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
