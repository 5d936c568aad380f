// Volumes: their files, uploads in parts, and the addresses that take parts and give files without
// a token.
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

/** Each has a file open. */
const downloads = { max: 64, ownerMax: "half", ownerWaitingMax: 256, what: "downloads" } as const;
const waitMs = 20_000;
/**
 * Each reads all names of a folder, which an app may have filled: a second of computing for a
 * million.
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
      const entries = await (isOlder(call) ? list.catch(emptyOfAbsent) : list);
      return entries.map(({ name, isFolder, sizeBytes, modifiedAt }) => ({
        name,
        is_folder: isFolder,
        size_bytes: sizeBytes,
        last_modified: modifiedAt.toISOString(),
      })) satisfies z.infer<typeof fileList>;
    },
    async beginVolumeUpload(call) {
      const { file_path: filePath, part_count: partCount } = bodyOf(call);
      const wanted = {
        filePath: String(filePath),
        partCount: Number(partCount),
        partBytes: isOlder(call) ? olderPartBytes : partBytes,
      };
      const { uploadId, key } = await volumeUploads.begin(volumeOf(call), wanted);
      const numbers = Array.from({ length: wanted.partCount }, (_, index) => index + 1);
      return {
        upload_id: uploadId,
        parts: numbers.map((number) => ({
          part_number: number,
          url: partUrl(urls(), key, number),
        })),
      } satisfies z.infer<typeof begunVolumeUpload>;
    },
    async putVolumePart(call) {
      const given = pathPart(call.request, "part_number") ?? "";
      const number = /^\d{1,5}$/.test(given) ? Number(given) : 0;
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
      const { upload_id: uploadId, file_path: filePath, parts: named } = bodyOf(call);
      // The contract has validated the types.
      const given = named as unknown as readonly {
        readonly part_number: number;
        readonly etag: string;
      }[];
      const sent = given.map(({ part_number: number, etag }) => ({ number, etag }));
      const completion = {
        projectId: volumeOf(call),
        uploadId: String(uploadId),
        filePath: String(filePath),
      };
      await volumeUploads.complete({ ...completion, parts: sent }, call.by);
      return { message: "Uploaded." };
    },
    async beginVolumeDownload(call) {
      const key = await volumes.beginDownload(volumeOf(call), filePathOf(call), call.by);
      return { url: downloadUrl(urls(), key) };
    },
    async getVolumeFile(call) {
      const found = await volumes.findDownload(partOf(call, "download_key"));
      // Those that wait have no file open: each owner may have many.
      const entry = { projectId: found.projectId, deadline: { waitMs, clock } };
      return await gate.run(() => download(call, found, parts), entry);
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

/** The list of a folder that is not there, for clients that list it before they make it. */
function emptyOfAbsent(error: unknown): readonly [] {
  if (error instanceof Fault && error.code === "not_found") return [];
  throw error;
}

async function download(
  call: ApiCall,
  found: DownloadedFile,
  parts: HandlerParts,
): Promise<undefined> {
  const file = await parts.volumes.openDownload(found);
  try {
    return await sendFile(call, file, parts);
  } finally {
    await file.handle.close();
  }
}

function showVolume({ sizeGb, usedBytes }: VolumeState): z.infer<typeof volumeList>[number] {
  return { id: volumeId, name: volumeId, mountPath: "/persistent-storage", sizeGb, usedBytes };
}

/** The project of the volume in the path. */
function volumeOf(call: ApiCall): ProjectId {
  if (pathPart(call.request, "volume_id") === volumeId) return projectOf(call);
  throw new Fault("not_found", `A project has one volume, ${volumeId}.`);
}

function filePathOf({ query }: ApiCall): string {
  const given = query["file_path"];
  if (given !== null) return String(given);
  throw new Fault("invalid", "file_path is missing; it must be a path within the volume.");
}
