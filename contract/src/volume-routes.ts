// Routes of the persistent storage: its volumes and their files. Field names are those that clients
// of this interface send.
import { z } from "zod";
import { messageAnswer } from "./answers.ts";
import type { Field } from "./field.ts";
import { pageSize } from "./page-fields.ts";
import { paths, type Route } from "./route.ts";

/** The size of every part of an upload but the last, in bytes. */
export const partBytes = 5_242_880;
/** The maximum number of parts of one file, which is then 52 GB long. */
export const partsMax = 10_000;

export const volumeList = z.array(
  z.strictObject({
    id: z.string(),
    name: z.string(),
    /** The path at which apps see the volume. */
    mountPath: z.string(),
    /** GB of 10^9 bytes; null: limited only by the disk. */
    sizeGb: z.int().min(1).nullable(),
    /** On disk; null: there are so many files that they cannot be counted in time. */
    usedBytes: z.int().min(0).nullable(),
  }),
);

export const fileList = z.array(
  z.strictObject({
    name: z.string(),
    /** Links are not folders, wherever they lead. */
    is_folder: z.boolean(),
    /** 0 for everything but files. */
    size_bytes: z.int().min(0),
    last_modified: z.iso.datetime(),
  }),
);

export const begunVolumeUpload = z.strictObject({
  upload_id: z.uuid(),
  /** Each takes its part without a token; anyone who knows the address can send it. */
  parts: z.array(z.strictObject({ part_number: z.int().min(1), url: z.url() })),
});

export const storedPart = z.strictObject({ part_number: z.int().min(1), etag: z.string() });

const region = {
  kind: "text",
  toml: null,
  form: /^[\w.-]{0,100}$/,
  allowed: "the name of a region",
  default: null,
  about: "Has no effect: a project has one volume in all regions.",
} as const satisfies Field;

/** What a path may hold beyond this, `volumes/volume-path` says. */
const path = (about: string) =>
  ({
    kind: "text",
    toml: null,
    form: /^[^\0]{1,4096}$/,
    allowed: "a path of 1 to 4096 characters within the volume, without the character NUL",
    default: null,
    about,
  }) as const satisfies Field;

const uploadPath = path(
  "Where the file goes: a path within the volume, with or without a / at its start.",
);
const volume = `${paths.project}/volumes/{volume_id}` as const;
const fileQuery = (about: string) => ({ region, file_path: path(about) });

/** By operation id; part of the table in `routes.ts`. */
export const volumeRoutes = {
  listVolumes: {
    method: "GET",
    path: `${paths.project}/volumes`,
    about:
      "The volumes of a project: one, `default`, which all its apps share at /persistent-storage.",
    access: "volumes.read",
    audit: null,
    status: 200,
    answer: volumeList,
  },
  listFiles: {
    method: "GET",
    path: `${volume}/ls`,
    about:
      "The files and folders in a folder of a volume, by name. A page that is full goes on with `after`. Links, pipes and devices are shown as files of size 0, and are never followed; names that are not UTF-8 are left out.",
    access: "volumes.read",
    audit: null,
    query: {
      region,
      dir: { ...path("The folder."), defaultAbout: "the volume itself" },
      after: path("Only names after this one: the last of the page before."),
      pageSize: pageSize(10_000, 10_000, "files and folders"),
    },
    status: 200,
    answer: fileList,
  },
  beginVolumeUpload: {
    method: "POST",
    path: `${volume}/cp/initialize`,
    about: `Begins the upload of a file. It is sent in parts of ${partBytes} bytes, the last of which may be smaller, each with PUT to its address, which works for 24 hours. Apps see the file only after POST …/cp/complete.`,
    access: "volumes.write",
    audit: null,
    query: { region },
    body: {
      kind: "fields",
      fields: {
        file_path: uploadPath,
        part_count: {
          kind: "integer",
          toml: null,
          min: 0,
          max: partsMax,
          default: null,
          about: "How many parts there are; 0 or 1 for an empty file.",
        },
        region,
      },
      required: ["file_path", "part_count"],
    },
    status: 200,
    answer: begunVolumeUpload,
  },
  putVolumePart: {
    method: "PUT",
    path: "/v2/volume-uploads/{upload_key}/{part_number}",
    about:
      "Takes one part of a file. The address is its own proof: no token is needed. Parts may come in any order and at once; a part that is sent again replaces what was sent before. The header `ETag` of the answer is what POST …/cp/complete wants.",
    access: "public",
    audit: null,
    takesStream: true,
    status: 200,
    answer: storedPart,
  },
  completeVolumeUpload: {
    method: "POST",
    path: `${volume}/cp/complete`,
    about:
      "Ends an upload: the file takes its place in one step, instead of what was there, and folders on the way are created. Every part must have arrived, with the etag that its PUT answered. May be repeated.",
    access: "volumes.write",
    audit: "volume.upload",
    query: { region },
    body: {
      kind: "fields",
      fields: {
        upload_id: {
          kind: "text",
          toml: null,
          form: /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i,
          allowed: "the upload_id of …/cp/initialize",
          default: null,
          about: "The upload.",
        },
        file_path: uploadPath,
        parts: {
          kind: "objects",
          toml: null,
          element: z.object({
            part_number: z.int().min(1).max(partsMax),
            etag: z.string().max(200),
          }),
          lengthMax: partsMax,
          allowed: `a list of at most ${partsMax} objects with part_number and etag`,
          default: null,
          about: "All parts, each with the etag that was answered, quotes included.",
        },
        region,
      },
      required: ["upload_id", "file_path", "parts"],
    },
    status: 200,
    answer: messageAnswer,
  },
  beginVolumeDownload: {
    method: "GET",
    path: `${volume}/download`,
    about:
      "An address to download a file from, without a token, for one hour. Links are not followed.",
    access: "volumes.read",
    audit: "volume.download",
    query: fileQuery("The file. Required."),
    status: 200,
    answer: z.strictObject({ url: z.url() }),
  },
  getVolumeFile: {
    method: "GET",
    path: "/v2/volume-downloads/{download_key}",
    about:
      "The bytes of a file, or with the header `Range: bytes={first}-{last}` a part of them (206). The address is its own proof: no token is needed. While the file stays the same, so does the header `ETag`; `If-Range` asks for all of it when it has changed.",
    access: "public",
    audit: null,
    isBytes: true,
    hasRanges: true,
    status: 200,
    answer: z.unknown(),
  },
  removeFile: {
    method: "DELETE",
    path: `${volume}/rm`,
    about:
      "Removes a file, or with a / at the end of its path a folder with all that is in it. Of a link, the link is removed, not where it leads.",
    access: "volumes.write",
    audit: "volume.remove",
    query: fileQuery("The file, or the folder with a / at its end. Required."),
    status: 200,
    answer: messageAnswer,
  },
  resizeVolume: {
    method: "PATCH",
    path: `${volume}/resize`,
    about:
      "Sets how much the volume may hold. Uploads beyond it are refused, and replicas that write beyond it are ended. Not less than what is used, nor more than the platform allows.",
    access: "volumes.write",
    audit: "volume.resize",
    body: {
      kind: "fields",
      fields: {
        newSizeGb: {
          kind: "integer",
          toml: null,
          min: 1,
          max: 1_000_000,
          default: null,
          about: "In GB of 10^9 bytes.",
        },
      },
      required: ["newSizeGb"],
    },
    status: 200,
    answer: volumeList.element,
  },
} as const satisfies Record<string, Route>;
