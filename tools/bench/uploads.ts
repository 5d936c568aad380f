// Deployments by upload at their largest: very many small files, and one very large one. Each zip
// is cut off half-way, the platform is killed, and the upload goes on where it was. Measured:
// times, and the most memory that the platform's process ever had.
import { createReadStream, createWriteStream, readFileSync, statSync } from "node:fs";
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
import { inContext } from "./in-context.ts";

export type UploadsOptions = { readonly files: number; readonly megabytes: number };

/** Of one deployment. */
export type UploadsRow = {
  readonly what: string;
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

/** Prints as it goes. */
export async function benchUploads(
  { files, megabytes }: UploadsOptions,
  print: (line: string) => void,
): Promise<readonly UploadsRow[]> {
  return await inContext(async (t) => {
    const platform = await startPlatform(t, { SLIPWAY_BUILD_TIMEOUT_SECONDS: "3600" });
    const folder = await mkdtemp(join(platform.dataDir, "bench-"));
    const many = async (zip: ZipFile): Promise<void> => {
      for (let index = 0; index < files; index++) {
        zip.addBuffer(contentOf(index, smallBytes), `data/${index % 1000}/${index}.bin`, {
          compress: false,
        });
      }
    };
    const large = async (zip: ZipFile): Promise<void> =>
      zip.addReadStreamLazy(
        "data/large.bin",
        { compress: false, size: megabytes * 1_000_000 },
        (done) => done(null, Readable.from(chunksOf(megabytes))),
      );
    const rows: UploadsRow[] = [];
    for (const [what, fill] of [
      [`${files} files of 10 kB`, many],
      [`one file of ${megabytes} MB`, large],
    ] as const) {
      const zipPath = join(folder, `${rows.length}.zip`);
      await writeZip(zipPath, fill);
      const row = await deploy(platform, { what, zipPath, name: `upload-${rows.length}` });
      print(JSON.stringify(row));
      rows.push(row);
    }
    return rows;
  });
}

async function writeZip(path: string, fill: (zip: ZipFile) => Promise<void>): Promise<void> {
  const zip = new ZipFile();
  const writing = pipeline(zip.outputStream, createWriteStream(path));
  zip.addBuffer(Buffer.from(mainPy), "main.py");
  await fill(zip);
  zip.end();
  await writing;
}

/** Each file differs; the same every time. */
function contentOf(index: number, bytes: number): Buffer {
  const seed = createHash("sha256").update(String(index)).digest();
  return Buffer.alloc(bytes, seed);
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
): Promise<UploadsRow> {
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
  const memory = [peakOf(platform)];
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
  memory.push(peakOf(platform));
  return {
    what,
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

/** The most memory that the process has had, in bytes. */
export function peakOf(platform: PlatformProcess): number {
  const status = readFileSync(`/proc/${platform.pid()}/status`, "utf8");
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1] ?? Number.NaN) * 1024;
}

/** The section of the document, in Markdown. */
export function uploadsSection(rows: readonly UploadsRow[], machine: string): string {
  return [
    "## Deployments by upload",
    "",
    `${new Date().toISOString().slice(0, 10)}, ${machine}. Each zip was cut off half-way, the platform killed, and the upload went on.`,
    "",
    "| app | zip | kept at the kill | upload | build | most memory of the platform |",
    "|---|---|---|---|---|---|",
    ...rows.map(
      (row) =>
        `| ${row.what} | ${megabytesOf(row.zipBytes)} | ${megabytesOf(row.keptBytes)} | ${row.uploadSeconds.toFixed(0)} s | ${row.buildSeconds.toFixed(0)} s | ${megabytesOf(row.memoryBytes)} |`,
    ),
    "",
  ].join("\n");
}

function megabytesOf(bytes: number): string {
  return `${Math.round(bytes / 1_000_000)} MB`;
}
