// Route handlers for volumes and their files, and for the URLs that send files without a token.
import type { z } from "zod";
import type { fileList, volumeList } from "@slipway/contract/volume-routes.ts";
import { isOlderClient } from "@slipway/contract/older-clients.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import { volumeId, type DownloadedFile, type Volumes, type VolumeState } from "#volumes/volumes.ts";
import { bodyOf, partOf, pathPart, projectOf, type ApiCall, type Handlers } from "./call.ts";
import { sendFile } from "./file-answer.ts";
import type { HandlerParts } from "./parts.ts";
import { OwnerGate } from "./owner-gate.ts";
import { downloadUrl } from "./urls.ts";

/** The limits of downloads, each of which keeps a file open. */
const downloads = { max: 64, ownerMax: "half", ownerWaitingMax: 256, what: "downloads" } as const;
/** How long a download waits for a slot. */
const waitMs = 20_000;
/**
 * The limits of lists. Each list reads all names of a folder, which takes a second of computing for
 * a million files of an app.
 */
const lists = { max: 4, ownerMax: 2, ownerWaitingMax: 20, what: "lists of files" };

/** Route handlers for volumes and their files. */
export function volumeHandlers(parts: HandlerParts) {
  const { volumes, urls, clock } = parts;
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
      const isOlder = isOlderClient(call.request.headers["x-cli-version"]);
      const entries = await (isOlder ? list.catch(emptyIfAbsent) : list);
      return entries.map(showEntry);
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

type FolderEntry = Awaited<ReturnType<Volumes["list"]>>[number];

function showEntry({
  name,
  isFolder,
  sizeBytes,
  modifiedAt,
}: FolderEntry): z.infer<typeof fileList>[number] {
  return {
    name,
    is_folder: isFolder,
    size_bytes: sizeBytes,
    last_modified: modifiedAt.toISOString(),
  };
}

function showVolume({ sizeGb, usedBytes }: VolumeState): z.infer<typeof volumeList>[number] {
  return { id: volumeId, name: volumeId, mountPath: "/persistent-storage", sizeGb, usedBytes };
}

/** The project of the volume in the path. Throws `Fault("not_found")` for any other volume. */
export function volumeOf(call: ApiCall): ProjectId {
  if (pathPart(call.request, "volume_id") === volumeId) return projectOf(call);
  throw new Fault("not_found", `A project has one volume, ${volumeId}.`);
}

function filePathOf({ query }: ApiCall): string {
  const filePath = query["file_path"];
  if (filePath !== null) return String(filePath);
  throw new Fault("invalid", "file_path is missing; it must be a path within the volume.");
}
