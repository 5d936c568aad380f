// Route handlers for volumes: their files, uploads in parts, and the URLs that receive parts and
// send files without a token.
import type { z } from "zod";
import type {
  begunVolumeUpload,
  fileList,
  storedPart,
  volumeList,
} from "@slipway/contract/volume-routes.ts";
import { partBytes } from "@slipway/contract/volume-routes.ts";
import { isOlderClient, olderPartBytes } from "@slipway/contract/older-clients.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import { volumeId, type DownloadedFile, type VolumeState } from "#volumes/volumes.ts";
import {
  bodyOf,
  partOf,
  pathPart,
  projectOf,
  streamOf,
  type ApiCall,
  type Handlers,
} from "./call.ts";
import { sendFile } from "./file-answer.ts";
import type { HandlerParts } from "./parts.ts";
import { OwnerGate } from "./owner-gate.ts";
import { downloadUrl, partUrl } from "./urls.ts";

/** The limits of downloads, each of which keeps a file open. */
const downloads = { max: 64, ownerMax: "half", ownerWaitingMax: 256, what: "downloads" } as const;
/** How long a download waits for others to end. */
const waitMs = 20_000;
/**
 * The limits of lists. Each list reads all names of a folder, which takes a second of computing for
 * a million files of an app.
 */
const lists = { max: 4, ownerMax: 2, ownerWaitingMax: 20, what: "lists of files" };

/** Route handlers for volumes. */
export function volumeHandlers(parts: HandlerParts) {
  const { volumes, volumeUploads, urls, clock } = parts;
  const gate = new OwnerGate(parts, downloads);
  const listGate = new OwnerGate(parts, lists);
  return {
    async listVolumes(call) {
      return [showVolume(await volumes.state(projectOf(call)))];
    },
    async listFiles(call) {
      const { dir, after, pageSize } = call.query;
      const page = { dir: String(dir ?? ""), after: String(after ?? ""), max: Number(pageSize) };
      const projectId = volumeOf(call);
      const list = listGate.run(() => volumes.list(projectId, page), { projectId });
      const entries = await (isOlder(call) ? list.catch(emptyIfAbsent) : list);
      return entries.map(({ name, isFolder, sizeBytes, modifiedAt }) => ({
        name,
        is_folder: isFolder,
        size_bytes: sizeBytes,
        last_modified: modifiedAt.toISOString(),
      })) satisfies z.infer<typeof fileList>;
    },
    async beginVolumeUpload(call) {
      const { file_path: filePath, part_count: partCount } = bodyOf(call);
      const upload = {
        filePath: String(filePath),
        partCount: Number(partCount),
        partBytes: isOlder(call) ? olderPartBytes : partBytes,
      };
      const { uploadId, key } = await volumeUploads.begin(volumeOf(call), upload);
      const numbers = Array.from({ length: upload.partCount }, (_, index) => index + 1);
      return {
        upload_id: uploadId,
        parts: numbers.map((number) => ({
          part_number: number,
          url: partUrl(urls(), key, number),
        })),
      } satisfies z.infer<typeof begunVolumeUpload>;
    },
    async putVolumePart(call) {
      const numberText = pathPart(call.request, "part_number") ?? "";
      // No part has the number 0, so it is refused.
      const number = /^\d{1,5}$/.test(numberText) ? Number(numberText) : 0;
      const { "content-length": length } = call.request.headers;
      const arriving = {
        length: length === undefined ? null : Number(length),
        body: streamOf(call),
      };
      const etag = await volumeUploads.receivePart(partOf(call, "upload_key"), number, arriving);
      void call.reply.header("etag", etag);
      return { part_number: number, etag } satisfies z.infer<typeof storedPart>;
    },
    async completeVolumeUpload(call) {
      const { upload_id: uploadId, file_path: filePath, parts: bodyParts } = bodyOf(call);
      // The contract has validated the types.
      const uploadedParts = bodyParts as unknown as readonly {
        readonly part_number: number;
        readonly etag: string;
      }[];
      const completion = {
        parts: uploadedParts.map(({ part_number: number, etag }) => ({ number, etag })),
        projectId: volumeOf(call),
        uploadId: String(uploadId),
        filePath: String(filePath),
      };
      await volumeUploads.complete(completion, call.by);
      return { message: "Uploaded." };
    },
    async beginVolumeDownload(call) {
      const key = await volumes.beginDownload(volumeOf(call), filePathOf(call), call.by);
      return { url: downloadUrl(urls(), key) };
    },
    async getVolumeFile(call) {
      const file = await volumes.findDownload(partOf(call, "download_key"));
      // The file is opened only after the wait, so that many downloads of an owner can wait.
      const entry = { projectId: file.projectId, deadline: { waitMs, clock } };
      return await gate.run(() => download(call, file, parts), entry);
    },
    async removeFile(call) {
      await volumes.remove(volumeOf(call), filePathOf(call), call.by);
      return { message: "Removed." };
    },
    async resizeVolume(call) {
      return showVolume(
        await volumes.resize(volumeOf(call), Number(bodyOf(call)["newSizeGb"]), call.by),
      );
    },
  } satisfies Handlers;
}

function isOlder({ request }: ApiCall): boolean {
  return isOlderClient(request.headers["x-cli-version"]);
}

/** Lists a missing folder as empty, for clients that list a folder before they create it. */
function emptyIfAbsent(error: unknown): readonly [] {
  if (error instanceof Fault && error.code === "not_found") return [];
  throw error;
}

async function download(
  call: ApiCall,
  file: DownloadedFile,
  parts: HandlerParts,
): Promise<undefined> {
  const openFile = await parts.volumes.openDownload(file);
  try {
    return await sendFile(call, openFile, parts);
  } finally {
    await openFile.handle.close();
  }
}

function showVolume({ sizeGb, usedBytes }: VolumeState): z.infer<typeof volumeList>[number] {
  return { id: volumeId, name: volumeId, mountPath: "/persistent-storage", sizeGb, usedBytes };
}

/** The project of the volume in the path. Throws `Fault("not_found")` for any other volume. */
function volumeOf(call: ApiCall): ProjectId {
  if (pathPart(call.request, "volume_id") === volumeId) return projectOf(call);
  throw new Fault("not_found", `A project has one volume, ${volumeId}.`);
}

function filePathOf({ query }: ApiCall): string {
  const filePath = query["file_path"];
  if (filePath !== null) return String(filePath);
  throw new Fault("invalid", "file_path is missing; it must be a path within the volume.");
}
