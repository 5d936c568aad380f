// Deployments by upload, and the address that takes their files.
import type { z } from "zod";
import type { startedUpload, uploadState } from "@slipway/contract/upload-routes.ts";
import type { Permission } from "@slipway/contract/words.ts";
import { Fault } from "#lib/fault.ts";
import type { UploadProgress } from "#deploy/uploads.ts";
import { requirePermission } from "./access.ts";
import { showCreated } from "./apps.ts";
import { buildOf, partOf, projectOf, streamOf, type ApiCall, type Handlers } from "./call.ts";
import { sendBytes } from "./file-answer.ts";
import type { HandlerParts } from "./parts.ts";
import { OwnerGate } from "./owner-gate.ts";
import { uploadUrl } from "./urls.ts";

/** Limits of downloads. Each keeps a file and a connection open until its client has everything. */
const downloads = { max: 20, ownerMax: 4, ownerWaitingMax: 20, what: "downloads" };
/** How long a download waits for a slot. */
const waitMs = 20_000;

/** Route handlers for deployments by upload. */
export function uploadHandlers(parts: HandlerParts) {
  const { uploadDeployments, uploads, urls, limit } = parts;
  const gate = new OwnerGate(parts, downloads);
  return {
    async deployUpload(call) {
      const projectId = projectOf(call);
      const checked = uploadDeployments.check(call.body);
      limit.take(projectId);
      const requires = (permission: Permission): void => requirePermission(call, permission);
      const started = await uploadDeployments.start({ projectId, checked, by: call.by, requires });
      return {
        ...showCreated(projectId, started, urls()),
        uploadUrl: uploadUrl(urls(), started.key),
        keyName: `${started.uploadId}.zip`,
      } satisfies z.infer<typeof startedUpload>;
    },
    deployPartnerApp() {
      throw new Fault(
        "not_usable",
        "Services of partners are not part of this platform: deploy an app of your own.",
      );
    },
    async putUpload(call) {
      const { "content-range": range = null, "content-length": length } = call.request.headers;
      const arriving = {
        range,
        length: length === undefined ? null : Number(length),
        body: streamOf(call),
      };
      return showProgress(await uploads.receive(partOf(call, "upload_key"), arriving));
    },
    async downloadBuild(call) {
      const entry = { projectId: projectOf(call), deadline: { waitMs, clock: parts.clock } };
      return await gate.run(() => download(call, parts), entry);
    },
    async getUpload(call) {
      return showProgress(await uploads.progress(partOf(call, "upload_key")));
    },
  } satisfies Handlers;
}

/** Resolves when the client has the zip or is gone. */
async function download(call: ApiCall, parts: HandlerParts): Promise<undefined> {
  const build = buildOf(call);
  const { file, bytes } = await parts.uploads.filesOf(build, call.by);
  const { reply } = call;
  try {
    void reply.header("content-type", "application/zip").header("content-length", bytes);
    void reply.header("content-disposition", `attachment; filename="${build.buildId}.zip"`);
    await sendBytes(call, 200, { file, first: 0, last: bytes - 1, ...parts });
  } finally {
    await file.close();
  }
  return undefined;
}

function showProgress(progress: UploadProgress): z.infer<typeof uploadState> {
  return progress;
}
