// Deployments by upload, and the address that takes their files.
import type { z } from "zod";
import type { startedUpload, uploadState } from "@slipway/contract/upload-routes.ts";
import { must } from "#lib/assert.ts";
import { Fault } from "#lib/fault.ts";
import type { UploadProgress } from "#deploy/uploads.ts";
import { requirePermission } from "./access.ts";
import { showCreated } from "./apps.ts";
import { pathPart, projectOf, streamOf, type ApiCall, type Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";
import { uploadUrl } from "./urls.ts";

/** Route handlers for deployments by upload. */
export function uploadHandlers({ uploadDeployments, uploads, urls, limit }: HandlerParts) {
  return {
    async deployUpload(call) {
      const projectId = projectOf(call);
      const checked = uploadDeployments.check(call.body);
      limit.take(projectId);
      const requires = (permission: Parameters<typeof requirePermission>[1]): void =>
        requirePermission(call, permission);
      const started = await uploadDeployments.start({ projectId, checked, by: call.by, requires });
      return {
        ...showCreated(projectId, started, urls()),
        uploadUrl: uploadUrl(urls(), started.key),
        keyName: `${started.uploadId}.zip`,
      } satisfies z.infer<typeof startedUpload>;
    },
    deployPartnerApp() {
      throw new Fault("not_usable", "Services of partners are not part of this platform: deploy an app of your own.");
    },
    async putUpload(call) {
      const { "content-range": range = null, "content-length": length } = call.request.headers;
      const arriving = { range, length: length === undefined ? null : Number(length), body: streamOf(call) };
      return showProgress(await uploads.receive(keyOf(call), arriving));
    },
    async getUpload(call) {
      return showProgress(await uploads.progress(keyOf(call)));
    },
  } satisfies Handlers;
}

function keyOf({ request }: ApiCall): string {
  return must(pathPart(request, "upload_key"), "the route names an upload");
}

function showProgress(progress: UploadProgress): z.infer<typeof uploadState> {
  return progress;
}
