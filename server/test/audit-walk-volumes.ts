// Rows of the walk over all routes for volumes; see `audit-walk-rows.ts`.
import type { Walk, WalkCall, WalkRows } from "./support/audit-walk.ts";

const parts = { volume_id: "default" };
let filesMade = 0;

async function begin(walk: Walk): Promise<{ path: string; uploadId: string; key: string }> {
  const path = `walked-${++filesMade}`;
  const begun = await walk.call("beginVolumeUpload", {
    parts,
    body: { file_path: path, part_count: 1 },
  });
  const [part] = begun.body.parts;
  return {
    path,
    uploadId: begun.body.upload_id,
    key: new URL(part.url).pathname.split("/").at(-2) ?? "",
  };
}

async function send(walk: Walk): Promise<WalkCall & { readonly path: string }> {
  const { path, uploadId, key } = await begin(walk);
  const sent = await walk.call("putVolumePart", partCall(key));
  const named = [{ part_number: 1, etag: sent.body.etag }];
  return { path, parts, body: { upload_id: uploadId, file_path: path, parts: named } };
}

async function newFile(walk: Walk): Promise<WalkCall> {
  const { path, ...call } = await send(walk);
  const done = await walk.call("completeVolumeUpload", call);
  if (done.status !== 200) throw new Error(JSON.stringify(done.body));
  return { parts, query: `file_path=${path}` };
}

function partCall(key: string): WalkCall {
  return { caller: "nobody", parts: { upload_key: key, part_number: "1" }, body: "bytes" };
}

export const volumeRows: WalkRows = {
  beginVolumeUpload: {
    succeed: () => ({ parts, body: { file_path: "begun", part_count: 1 } }),
    refuse: () => ({
      parts,
      body: { file_path: "begun", part_count: 1 },
      caller: "inference",
      status: 403,
      unrecorded: "it changes nothing for anybody",
    }),
    unrecorded: "the file is recorded when it is complete",
  },
  putVolumePart: {
    succeed: async (walk) => partCall((await begin(walk)).key),
    refuse: () => ({
      ...partCall("nobody-s"),
      status: 404,
      unrecorded: "whoever shows nothing that is valid is nobody that is known",
    }),
    unrecorded: "the file is recorded when it is complete",
  },
  completeVolumeUpload: { succeed: send },
  beginVolumeDownload: { succeed: newFile },
  removeFile: { succeed: newFile },
  resizeVolume: { succeed: () => ({ parts, body: { newSizeGb: 5 } }) },
};
