// Files that run once: the requests of the published clients' command for that.
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

/** Each is an open file and a connection for as long as its client takes. */
const forms = { max: 16, ownerMax: 4, ownerWaitingMax: 20, what: "files that run" };
/** As long as clients try. */
const formMs = 1_800_000;

/** Route handlers for files that run once. */
export function fileRunHandlers(parts: HandlerParts) {
  const { fileRuns } = parts;
  const gate = new OwnerGate(parts, forms);
  return {
    async createRunApp(call) {
      const projectId = projectOf(call);
      const appName = nameOf(call);
      await fileRuns.requireName(projectId, appName);
      return { appId: `${projectId}-${appName}`, appName } satisfies z.infer<typeof fileRunApp>;
    },
    makeRunEnvironment(call) {
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
  const { fileRuns, uploads, limit, clock, stopping } = parts;
  const { request, query, by } = call;
  const projectId = projectOf(call);
  const { filename, functionName, ...wish } = query as Asked;
  if (filename === null)
    throw new Fault("invalid", "filename is missing; it must be the Python file to run.");
  const checked = fileRuns.check(wishOf(nameOf(call), wish));
  limit.take(projectId);
  const slow = new AbortController();
  const cancel = clock.after(formMs, () =>
    slow.abort(new Fault("invalid", "The form arrived too slowly.")),
  );
  const stop = (): void =>
    slow.abort(new Fault("unavailable", "The platform is stopping.", { retryAfterSeconds: 5 }));
  stopping.addEventListener("abort", stop);
  const { signal } = slow;
  const length = Number(request.headers["content-length"] ?? 0);
  const others = { "main.py": fileRunEntry };
  try {
    const { data, file } = await readFileForm({
      headers: request.headers,
      body: streamOf(call),
      dataBytesMax: fileRuns.dataBytesMax,
      signal,
      take: (tar, ended) =>
        uploads.stage({ tar, length, folder: fileRunFolder, others, signal: ended }),
    });
    try {
      await call.admit();
      const { runId, uploadId } = await fileRuns.start({
        projectId,
        checked,
        filename,
        functionName,
        data,
        files: file.files,
        by,
        clientAddress: request.clientAddress,
        requires: (permission) => requirePermission(call, permission),
      });
      if (!(await uploads.use(file, uploadId)))
        throw new Fault("conflict", "Another deployment took its place just now.");
      return { runId };
    } finally {
      await uploads.discard(file);
    }
  } finally {
    stopping.removeEventListener("abort", stop);
    cancel();
  }
}

/** The contract has validated the types of the values. */
type Asked = Omit<FileRunWish, "name"> & {
  readonly filename: string | null;
  readonly functionName: string | null;
};

function wishOf(
  name: string,
  { imageDigest, region, computeType, gpuCount, cpu, memoryGb }: Omit<FileRunWish, "name">,
) {
  return { name, imageDigest, region, computeType, gpuCount, cpu, memoryGb };
}

function nameOf({ request }: ApiCall): string {
  return must(appNameOf(request, "run_app"), "the route names an app");
}
