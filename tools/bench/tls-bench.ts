// What TLS and HTTP/2 cost per call, with our proxy and with nginx: the same certificate, the same
// cipher, the same upstream and load, one core each.
import { temporaryFolder } from "@slipway/server/test/support/folder.ts";
import { TestAuthority } from "@slipway/server/test/support/tls-files.ts";
import { benchPath, benchToken } from "./bench-app.ts";
import type { Benchmark } from "./harness/benchmark.ts";
import type { ServerProcess } from "./harness/child.ts";
import { runH2load } from "./harness/h2load.ts";
import { medianAndRange, table, thousands } from "./harness/markdown.ts";
import { cpuSecondsOf } from "./harness/process-use.ts";
import { findProgram, versionOf } from "./harness/programs.ts";
import { alternate } from "./harness/rounds.ts";
import { median } from "./harness/statistics.ts";
import { cores, ProxyPeers } from "./proxy-peers.ts";
import { doubtIn } from "./proxy-report.ts";

type TlsOptions = { readonly rounds: number; readonly seconds: number };

type Round = { readonly callsPerSecond: number; readonly cpuUsPerCall: number };

/** Rounds of a busy machine are too short for node to compile hot code in one. */
const warmUps = 3;
const cipher = "TLS_AES_128_GCM_SHA256";
/** Each has 64 calls at once; HTTP/2 needs fewer connections for them. */
const ways = [
  { name: "HTTP/1.1", isEncrypted: false, isHttp2: false, connections: 64, streams: 1 },
  { name: "HTTP/1.1 and TLS", isEncrypted: true, isHttp2: false, connections: 64, streams: 1 },
  { name: "HTTP/2 and TLS", isEncrypted: true, isHttp2: true, connections: 8, streams: 8 },
] as const;
const peers = ["slipway", "nginx"] as const;

/** `tls`. It needs a second core. */
export const tls: Benchmark<TlsOptions> = {
  name: "tls",
  measures: "What TLS and HTTP/2 cost per call",
  heading: "TLS and HTTP/2",
  options: { rounds: 7, seconds: 4 },
  async run({ rounds, seconds }, { t, print }) {
    const nginx = findProgram("nginx");
    const h2load = findProgram("h2load");
    findProgram("taskset");
    const files = new TestAuthority(temporaryFolder(t, "tls")).sign("bench", ["localhost"]);
    const servers = new ProxyPeers(t, nginx);
    await servers.startUpstream();
    const plain = { slipway: await servers.startSlipway(), nginx: await servers.startNginx() };
    const encrypted = {
      slipway: await servers.startSlipway(files),
      nginx: await servers.startNginx(files),
    };
    const load = async ({ isEncrypted, ...way }: (typeof ways)[number], server: ServerProcess) => {
      const url = `${isEncrypted ? "https" : "http"}://127.0.0.1:${server.port}${benchPath}`;
      const cpuBefore = cpuSecondsOf(server.pid);
      const request = { url, token: benchToken, seconds, cipher, core: cores.load, ...way };
      const { calls, callsPerSecond } = await runH2load(request);
      const cpuUsPerCall = ((cpuSecondsOf(server.pid) - cpuBefore) * 1e6) / calls;
      return { callsPerSecond, cpuUsPerCall };
    };
    const cases = ways.flatMap((way) =>
      peers.map((peer) => {
        const server = (way.isEncrypted ? encrypted : plain)[peer];
        return [caseOf(peer, way.name), () => load(way, server)] as const;
      }),
    );
    const show = ({ callsPerSecond, cpuUsPerCall }: Round): string =>
      `${Math.round(callsPerSecond)} calls/s, ${cpuUsPerCall.toFixed(1)} µs`;
    const measured = await alternate(Object.fromEntries(cases), { rounds, warmUps, print, show });
    return {
      conditions: `${rounds} rounds of ${seconds} s, alternating, 64 calls at once, ${cipher} with a P-256 certificate.`,
      versions: [
        versionOf(nginx, "-v").replace("nginx version: ", "").replace("/", " "),
        versionOf(h2load, "--version"),
      ],
      body: [...costTable(measured), comparison(measured) + doubtIn(measured), ""],
    };
  },
};

function caseOf(peer: string, way: string): string {
  return `${peer}, ${way}`;
}

function costTable(measured: Readonly<Record<string, readonly Round[]>>): string[] {
  const rows = Object.entries(measured).map(([name, rounds]) => [
    name,
    ...medianAndRange(
      rounds.map(({ callsPerSecond }) => callsPerSecond),
      thousands,
    ),
    ...medianAndRange(
      rounds.map(({ cpuUsPerCall }) => cpuUsPerCall),
      (us) => us.toFixed(1),
      " µs",
    ),
  ]);
  return table(
    ["proxy", "calls/s, median", "min – max", "CPU time per call, median", "min – max"],
    rows,
  );
}

/** Medians of the ratios of each round, in which all were measured one after the other. */
function comparison(measured: Readonly<Record<string, readonly Round[]>>): string {
  const ratio = (name: string, to: string): string => {
    const others = measured[to] ?? [];
    const ratios = (measured[name] ?? []).map(
      ({ cpuUsPerCall }, index) => cpuUsPerCall / (others[index]?.cpuUsPerCall ?? NaN),
    );
    return median(ratios).toFixed(2);
  };
  const [first, ...others] = ways;
  const costs = peers.map((peer) => {
    const base = caseOf(peer, first.name);
    const parts = others.map(({ name }) => `${ratio(caseOf(peer, name), base)} × with ${name}`);
    return `${peer} takes ${parts.join(" and ")}`;
  });
  const beside = ways.map(
    ({ name }) => `${ratio(caseOf("slipway", name), caseOf("nginx", name))} × with ${name}`,
  );
  return `Of the CPU time of a call with ${first.name} alone, ${costs.join(", ")}. Of nginx's CPU time, slipway takes ${beside.join(", ")} (medians of the ratios of each round).`;
}
