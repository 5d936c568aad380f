// Deployments by upload at their largest: very many small files, and one very large one. Each zip
// is cut off half-way, the platform is killed, and the upload goes on where it was. Measured:
// times, and the most memory that the platform's process ever had.
import { createReadStream, createWriteStream, statSync } from "node:fs";
import { createHash, randomBytes } from "node:crypto";
import { mkdtemp } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { ZipFile } from "yazl";
import { startedUpload } from "@slipway/contract/upload-routes.ts";
import {
  startPlatform,
  type PlatformProcess,
} from "@slipway/server/test/support/platform-process.ts";
import { until } from "@slipway/server/test/support/until.ts";
import type { Benchmark } from "./harness/benchmark.ts";
import { table } from "./harness/markdown.ts";
import { peakBytesOf } from "./harness/process-use.ts";

/** One deployment. */
type Deployment = {
  readonly zipBytes: number;
  /** Stored when the platform was killed, and found again after it. */
  readonly keptBytes: number;
  readonly uploadSeconds: number;
  /** From the end of the upload until the app is live. */
  readonly buildSeconds: number;
  readonly memoryBytes: number;
};

const smallBytes = 10_000;
const mainPy = "import os\n\ndef run(path: str):\n    return os.path.getsize(path)\n";
const endWaitMs = 3_600_000;

/** `uploads` */
export const uploads: Benchmark<{ readonly files: number; readonly megabytes: number }> = {
  name: "uploads",
  measures: "Deployments by upload of very many files and of a very large one, with a kill",
  heading: "Deployments by upload",
  options: { files: 100_000, megabytes: 5000 },
  async run({ files, megabytes }, { t, print }) {
    const platform = await startPlatform(t, { SLIPWAY_BUILD_TIMEOUT_SECONDS: "3600" });
    const folder = await mkdtemp(join(platform.dataDir, "bench-"));
    const contents: [string, (zip: ZipFile) => void][] = [
      [`${files} files of 10 kB`, (zip) => addSmallFiles(zip, files)],
      [`one file of ${megabytes} MB`, (zip) => addLargeFile(zip, megabytes)],
    ];
    const rows: string[][] = [];
    for (const [what, fill] of contents) {
      const zipPath = join(folder, `${rows.length}.zip`);
      await writeZip(zipPath, fill);
      const deployed = await deploy(platform, { what, zipPath, name: `upload-${rows.length}` });
      print(`${what}: ${JSON.stringify(deployed)}`);
      rows.push([what, ...cellsOf(deployed)]);
    }
    return {
      conditions: "Each zip was cut off half-way, the platform killed, and the upload went on.",
      body: table(
        ["app", "zip", "kept at the kill", "upload", "build", "most memory of the platform"],
        rows,
      ),
    };
  },
};

function cellsOf(deployed: Deployment): string[] {
  const { zipBytes, keptBytes, uploadSeconds, buildSeconds, memoryBytes } = deployed;
  return [
    megabytesText(zipBytes),
    megabytesText(keptBytes),
    `${uploadSeconds.toFixed(0)} s`,
    `${buildSeconds.toFixed(0)} s`,
    megabytesText(memoryBytes),
  ];
}

function megabytesText(bytes: number): string {
  return `${Math.round(bytes / 1_000_000)} MB`;
}

function addSmallFiles(zip: ZipFile, count: number): void {
  for (let index = 0; index < count; index++) {
    const path = `data/${index % 1000}/${index}.bin`;
    zip.addBuffer(contentOf(index), path, { compress: false });
  }
}

function addLargeFile(zip: ZipFile, megabytes: number): void {
  const options = { compress: false, size: megabytes * 1_000_000 };
  zip.addReadStreamLazy("data/large.bin", options, (done) =>
    done(null, Readable.from(chunksOf(megabytes))),
  );
}

async function writeZip(path: string, fill: (zip: ZipFile) => void): Promise<void> {
  const zip = new ZipFile();
  const writing = pipeline(zip.outputStream, createWriteStream(path));
  zip.addBuffer(Buffer.from(mainPy), "main.py");
  fill(zip);
  zip.end();
  await writing;
}

/** Each file differs; the same every time. */
function contentOf(index: number): Buffer {
  const seed = createHash("sha256").update(String(index)).digest();
  return Buffer.alloc(smallBytes, seed);
}

function* chunksOf(megabytes: number): Generator<Buffer, void> {
  const chunk = randomBytes(1_000_000);
  for (let index = 0; index < megabytes; index++) yield chunk;
}

async function deploy(
  platform: PlatformProcess,
  {
    what,
    zipPath,
    name,
  }: { readonly what: string; readonly zipPath: string; readonly name: string },
): Promise<Deployment> {
  const { projectId } = platform.bootstrap;
  const started = await platform.api("POST", `/v2/projects/${projectId}/apps`, {
    name,
    disableAuth: true,
  });
  if (started.status !== 201) throw new Error(JSON.stringify(started.body));
  const { uploadUrl, buildId } = startedUpload.parse(started.body);
  const key = new URL(uploadUrl).pathname;
  const size = statSync(zipPath).size;
  const began = performance.now();
  const half = Math.floor(size / 2);
  await send({ url: platform.bootstrap.baseUrl + key, zipPath, from: 0, to: half, size });
  const stored = (await progressOf(platform, key)).receivedBytes;
  const memory = [peakBytesOf(platform.pid())];
  await platform.end("SIGKILL");
  await platform.restart();
  const { receivedBytes: keptBytes } = await progressOf(platform, key);
  if (stored !== half || keptBytes !== half)
    throw new Error(`${half} bytes were sent, ${stored} stored, ${keptBytes} kept`);
  await send({ url: platform.bootstrap.baseUrl + key, zipPath, from: half, to: size, size });
  const uploaded = performance.now();
  const build = `/v2/projects/${projectId}/apps/${projectId}-${name}/builds/${buildId}`;
  const ended = await until(
    `the build of ${what} ends`,
    async () => {
      const { status, reason } = (await platform.api("GET", build)).body as {
        status: string;
        reason: string | null;
      };
      return ["pending", "building", "initializing"].includes(status) ? null : { status, reason };
    },
    { deadlineMs: endWaitMs },
  );
  if (ended.status !== "success") throw new Error(`${what}: ${ended.status}: ${ended.reason}`);
  memory.push(peakBytesOf(platform.pid()));
  return {
    zipBytes: size,
    keptBytes,
    uploadSeconds: (uploaded - began) / 1000,
    buildSeconds: (performance.now() - uploaded) / 1000,
    memoryBytes: Math.max(...memory),
  };
}

type Sending = {
  readonly url: string;
  readonly zipPath: string;
  readonly from: number;
  readonly to: number;
  readonly size: number;
};

async function send({ url, zipPath, from, to, size }: Sending): Promise<void> {
  const headers = {
    "content-length": to - from,
    "content-range": `bytes ${from}-${to - 1}/${size}`,
  };
  const sending = request(url, { method: "PUT", headers });
  const answered = new Promise<number>((resolve, reject) => {
    sending.on("response", (response) => {
      response.resume().on("end", () => resolve(response.statusCode ?? 0));
    });
    sending.on("error", reject);
  });
  await pipeline(createReadStream(zipPath, { start: from, end: to - 1 }), sending);
  const status = await answered;
  if (status !== 200) throw new Error(`the upload was answered with ${status}`);
}

async function progressOf(
  platform: PlatformProcess,
  path: string,
): Promise<{ readonly receivedBytes: number }> {
  return (await (await fetch(platform.bootstrap.baseUrl + path)).json()) as {
    receivedBytes: number;
  };
}
