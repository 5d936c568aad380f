// Many small files and one large one through a volume of a whole platform, which is killed in the
// middle of the large upload and of its download, and goes on: how fast, and how much memory the
// platform takes at its peak.
import { createHash, type Hash } from "node:crypto";
import {
  startPlatform,
  type PlatformProcess,
} from "@slipway/server/test/support/platform-process.ts";
import { partBytes } from "@slipway/contract/volume-routes.ts";
import type { Benchmark } from "./harness/benchmark.ts";
import { workThrough } from "./harness/closed-loop.ts";
import { table } from "./harness/markdown.ts";
import { peakBytesOf } from "./harness/process-use.ts";
import { timed } from "./harness/rounds.ts";

type Part = { readonly part_number: number; readonly url: string };

/** As many as clients send. */
const atOnce = 10;
const smallBytes = 10_000;

/** `volumes` */
export const volumes: Benchmark<{ readonly files: number; readonly megabytes: number }> = {
  name: "volumes",
  measures: "Very many files and a very large one through a volume, with a kill",
  heading: "Volumes",
  options: { files: 100_000, megabytes: 5000 },
  async run({ files, megabytes }, { t, print }) {
    // Two requests for each file, which one token may not send in so short a time.
    const platform = await startPlatform(t, { SLIPWAY_REQUESTS_PER_MINUTE: "1000000" });
    const idlePeak = peakMb(platform);
    const smallSeconds = (await timed(() => sendSmall(platform, files))) / 1000;
    const smallPeak = peakMb(platform);
    print(`${files} files in ${smallSeconds.toFixed(1)} s, peak ${smallPeak} MB`);
    let peakBeforeKill = 0;
    const kill = async (): Promise<void> => {
      peakBeforeKill = Math.max(peakBeforeKill, peakMb(platform));
      await platform.end("SIGKILL");
      await platform.restart();
    };
    const bytes = megabytes * 1_000_000;
    let sent = "";
    const upMs = await timed(async () => (sent = await sendLarge(platform, bytes, kill)));
    let received = "";
    const downMs = await timed(async () => (received = await receiveLarge(platform, bytes, kill)));
    if (sent !== received) throw new Error("the large file came back as another one");
    const largePeak = Math.max(peakBeforeKill, peakMb(platform));
    const large = (what: string, seconds: number, peak: string): string[] => [
      `${what}, with a kill in the middle`,
      `${seconds.toFixed(1)} s`,
      `${Math.round(megabytes / seconds)} MB/s`,
      peak,
    ];
    const small = [`${smallSeconds.toFixed(1)} s`, `${Math.round(files / smallSeconds)} files/s`];
    return {
      conditions: `${atOnce} requests at once.`,
      body: table(
        ["what", "time", "rate", "peak memory of the platform"],
        [
          ["nothing", "", "", `${idlePeak} MB`],
          [`${files} files of 10 kB up`, ...small, `${smallPeak} MB`],
          large(`one file of ${megabytes} MB up`, upMs / 1000, `${largePeak} MB`),
          large("the same file down", downMs / 1000, ""),
        ],
      ),
    };
  },
};

async function sendSmall(platform: PlatformProcess, files: number): Promise<void> {
  const content = Buffer.alloc(smallBytes, "x");
  await workThrough(files, atOnce, async (index) => {
    const path = `small/${index % 100}/${index}`;
    const { upload_id: id, parts } = await begin(platform, path, 1);
    await complete(platform, { id, path, etags: [await put(platform, parts[0] as Part, content)] });
  });
}

/** Kills the platform after half of the parts, and sends again what was not answered. */
async function sendLarge(
  platform: PlatformProcess,
  bytes: number,
  kill: () => Promise<void>,
): Promise<string> {
  const count = Math.ceil(bytes / partBytes);
  const { upload_id: id, parts } = await begin(platform, "large", count);
  const etags: (string | undefined)[] = Array.from({ length: count });
  const send = async (index: number): Promise<void> => {
    etags[index] ??= await put(platform, parts[index] as Part, contentOf(index, bytes));
  };
  let killing: Promise<void> | undefined;
  await workThrough(count, atOnce, async (index) => {
    if (index === Math.floor(count / 2)) killing = kill();
    if (killing === undefined) await send(index).catch(() => undefined);
  });
  await killing;
  await workThrough(count, atOnce, send);
  await complete(platform, { id, path: "large", etags });
  const hash = createHash("sha256");
  for (let index = 0; index < count; index++) hash.update(contentOf(index, bytes));
  return hash.digest("hex");
}

async function receiveLarge(
  platform: PlatformProcess,
  bytes: number,
  kill: () => Promise<void>,
): Promise<string> {
  const answer = await platform.api("GET", `${volumeOf(platform)}/download?file_path=large`);
  const { url } = answer.body as { readonly url: string };
  const hash = createHash("sha256");
  let received = await receive({ url: here(platform, url), from: 0, hash, stopAt: bytes / 2 });
  await kill();
  received = await receive({ url: here(platform, url), from: received, hash, stopAt: bytes });
  if (received !== bytes) throw new Error(`the download ended after ${received} of ${bytes} bytes`);
  return hash.digest("hex");
}

type Receiving = {
  readonly url: string;
  readonly from: number;
  readonly hash: Hash;
  readonly stopAt: number;
};

/** Returns how many bytes there are by then. */
async function receive({ url, from, hash, stopAt }: Receiving): Promise<number> {
  const response = await fetch(url, { headers: { range: `bytes=${from}-` } });
  if (response.status !== 206 || response.body === null)
    throw new Error(`the download answered ${response.status}`);
  let at = from;
  for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
    hash.update(chunk);
    at += chunk.length;
    if (at >= stopAt) break;
  }
  return at;
}

/** Bytes that differ from part to part, at no cost. */
function contentOf(index: number, bytes: number): Buffer {
  return Buffer.alloc(Math.min(partBytes, bytes - index * partBytes), `part ${index} `);
}

function volumeOf({ bootstrap }: PlatformProcess): string {
  return `/v2/projects/${bootstrap.projectId}/volumes/default`;
}

/** The port is another one after a restart. */
function here({ bootstrap }: PlatformProcess, url: string): string {
  return `${bootstrap.baseUrl}${new URL(url).pathname}`;
}

async function begin(
  platform: PlatformProcess,
  path: string,
  count: number,
): Promise<{ readonly upload_id: string; readonly parts: readonly Part[] }> {
  const body = { file_path: path, part_count: count };
  const answer = await platform.api("POST", `${volumeOf(platform)}/cp/initialize`, body);
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
  return answer.body as { readonly upload_id: string; readonly parts: readonly Part[] };
}

async function put(platform: PlatformProcess, { url }: Part, content: Buffer): Promise<string> {
  const response = await fetch(here(platform, url), {
    method: "PUT",
    body: new Uint8Array(content),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(text);
  return response.headers.get("etag") ?? "";
}

async function complete(
  platform: PlatformProcess,
  {
    id,
    path,
    etags,
  }: {
    readonly id: string;
    readonly path: string;
    readonly etags: readonly (string | undefined)[];
  },
): Promise<void> {
  const parts = etags.map((etag, index) => ({ part_number: index + 1, etag }));
  const body = { upload_id: id, file_path: path, parts };
  const answer = await platform.api("POST", `${volumeOf(platform)}/cp/complete`, body);
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
}

function peakMb(platform: PlatformProcess): number {
  return Math.round(peakBytesOf(platform.pid()) / 1e6);
}
