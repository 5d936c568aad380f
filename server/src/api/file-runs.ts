// Files that run once: the requests with which a command-line client runs one file.
import type { z } from "zod";
import type { fileRun, fileRunApp, fileRunEnvironment } from "@slipway/contract/upload-routes.ts";
import { must } from "#lib/assert.ts";
import { Fault } from "#lib/fault.ts";
import { fileRunEntry, fileRunFolder } from "#runs/file-run-entry.ts";
import type { FileRunWish } from "#runs/file-runs.ts";
import { requirePermission } from "./access.ts";
import { appNameOf, projectOf, streamOf, type ApiCall, type Handlers } from "./call.ts";
import { readFileForm } from "./file-form.ts";
import type { HandlerParts } from "./parts.ts";
import { OwnerGate } from "./owner-gate.ts";

/** Limits of uploads. Each keeps a file and a connection open until its client has sent it all. */
const uploadBounds = { max: 16, ownerMax: 4, ownerWaitingMax: 20, what: "files that run" };
/** The time limit of an upload: clients give up after half an hour too. */
const uploadMs = 1_800_000;

/** Route handlers for files that run once. */
export function fileRunHandlers(parts: HandlerParts) {
  const { fileRuns } = parts;
  const gate = new OwnerGate(parts, uploadBounds);
  return {
    async createRunApp(call) {
      const projectId = projectOf(call);
      const appName = nameOf(call);
      await fileRuns.requireName(projectId, appName);
      return { appId: `${projectId}-${appName}`, appName } satisfies z.infer<typeof fileRunApp>;
    },
    makeRunEnvironment(call) {
      // A request without a body counts as one with an empty body.
      const body = Buffer.isBuffer(call.body) ? call.body : Buffer.alloc(0);
      const digest = fileRuns.environment(nameOf(call), body);
      return Promise.resolve({ status: "ready", digest } satisfies z.infer<
        typeof fileRunEnvironment
      >);
    },
    async runFile(call) {
      return await gate.run(() => run(call, parts), { projectId: projectOf(call) });
    },
  } satisfies Handlers;
}

async function run(call: ApiCall, parts: HandlerParts): Promise<z.infer<typeof fileRun>> {
  const { fileRuns, uploads, limit } = parts;
  const projectId = projectOf(call);
  const { filename, functionName, ...app } = call.query as RunQuery;
  if (filename === null)
    throw new Fault("invalid", "filename is missing; it must be the Python file to run.");
  const checked = fileRuns.check(appWishOf(nameOf(call), app));
  limit.take(projectId);
  const { data, file } = await receiveForm(call, parts);
  try {
    await call.admit();
    const { runId, uploadId } = await fileRuns.start({
      projectId,
      checked,
      filename,
      functionName,
      data,
      files: file.files,
      by: call.by,
      clientAddress: call.request.clientAddress,
      requires: (permission) => requirePermission(call, permission),
    });
    if (!(await uploads.use(file, uploadId)))
      throw new Fault("conflict", "Another deployment replaced the file just now.");
    return { runId };
  } finally {
    await uploads.discard(file);
  }
}

/** Reads the form, and stores its file with the program that runs it. */
async function receiveForm(call: ApiCall, { fileRuns, uploads, clock, stopping }: HandlerParts) {
  const { headers } = call.request;
  const length = Number(headers["content-length"] ?? 0);
  // The program stands beside the client's files, and runs one of them.
  const others = { "main.py": fileRunEntry };
  const broken = new AbortController();
  const cancelTimeout = clock.after(uploadMs, () =>
    broken.abort(new Fault("invalid", "The form arrived too slowly.")),
  );
  const stop = (): void =>
    broken.abort(new Fault("unavailable", "The platform is stopping.", { retryAfterSeconds: 5 }));
  stopping.addEventListener("abort", stop);
  try {
    return await readFileForm({
      headers,
      body: streamOf(call),
      dataBytesMax: fileRuns.dataBytesMax,
      signal: broken.signal,
      take: (tar, signal) => uploads.stage({ tar, length, folder: fileRunFolder, others, signal }),
    });
  } finally {
    stopping.removeEventListener("abort", stop);
    cancelTimeout();
  }
}

/** The query of a request to run a file, whose types the contract has checked. */
type RunQuery = Omit<FileRunWish, "name"> & {
  readonly filename: string | null;
  readonly functionName: string | null;
};

/** Picks the settings of the app from the query, which may have other parameters. */
function appWishOf(
  name: string,
  { imageDigest, region, computeType, gpuCount, cpu, memoryGb }: Omit<FileRunWish, "name">,
): FileRunWish {
  return { name, imageDigest, region, computeType, gpuCount, cpu, memoryGb };
}

function nameOf({ request }: ApiCall): string {
  return must(appNameOf(request, "run_app"), "the route names an app");
}
