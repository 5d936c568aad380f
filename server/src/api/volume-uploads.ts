// Route handlers for uploads to volumes in parts, and for the URLs that receive the parts without a
// token.
import type { z } from "zod";
import type { begunVolumeUpload, storedPart } from "@slipway/contract/volume-routes.ts";
import { partBytes } from "@slipway/contract/volume-routes.ts";
import { isOlderClient, olderPartBytes } from "@slipway/contract/older-clients.ts";
import { bodyOf, partOf, pathPart, streamOf, type Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";
import { partUrl } from "./urls.ts";
import { volumeOf } from "./volumes.ts";

/** Route handlers for uploads to volumes. */
export function volumeUploadHandlers({ volumeUploads, urls }: HandlerParts) {
  return {
    async beginVolumeUpload(call) {
      const { file_path: filePath, part_count: partCount } = bodyOf(call);
      const isOlder = isOlderClient(call.request.headers["x-cli-version"]);
      const upload = {
        filePath: String(filePath),
        partCount: Number(partCount),
        partBytes: isOlder ? olderPartBytes : partBytes,
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
      // A text that is no number of a part becomes 0, which is refused, since no part has number 0.
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
  } satisfies Handlers;
}
