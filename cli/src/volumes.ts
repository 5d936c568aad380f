// `slipway volumes …`: the files of a project that outlive replicas, which apps see at
// /persistent-storage.
import { existsSync } from "node:fs";
import { basename } from "node:path";
import { answerOf } from "@slipway/client/client.ts";
import { misuse } from "./refused.ts";
import { changeCommand, defined, listCommand } from "./resource.ts";
import { bytesText } from "./sizes.ts";
import { moment } from "./table.ts";
import { downloadFile, uploadAny } from "./volume-files.ts";

const route = "/v2/projects/{project_id}/volumes" as const;
const volumeRoute = `${route}/{volume_id}` as const;
const volume_id = "default";
const pathOperand = {
  name: "path",
  about: "A path within the volume, such as models/model.bin.",
} as const;
/** The maximum number of files in one page of the API. */
const pageSize = 10_000;

/** The commands of volumes, by verb. */
export const volumes = {
  list: listCommand({
    name: "volumes list",
    about: "Show the volume of the project, which all its apps share, and how full it is.",
    examples: ["volumes"],
    of: "project",
    items: ({ api, path }) => answerOf(api.GET(route, { params: { path } })),
    columns: {
      VOLUME: ({ name }) => name,
      "APPS SEE IT AT": ({ mountPath }) => mountPath,
      USED: ({ usedBytes }) => (usedBytes === null ? null : bytesText(usedBytes)),
      SIZE: ({ sizeGb }) => (sizeGb === null ? "the disk's" : `${sizeGb} GB`),
    },
    none: "The project has no volumes.",
  }),

  ls: listCommand({
    name: "volumes ls",
    about: "List the files and folders in a folder of the volume, by name.",
    examples: ["volumes ls", "volumes ls models"],
    of: "project",
    operands: [
      {
        name: "folder",
        about: "A folder within the volume. Default: the volume itself.",
        isOptional: true,
      },
    ],
    async items({ api, path, given }) {
      const dir = given.operand("folder");
      const found = [];
      for (let after: string | undefined; ;) {
        const query = { pageSize, ...defined({ after }), ...(dir === "" ? {} : { dir }) };
        const page = await answerOf(
          api.GET(`${volumeRoute}/ls`, { params: { path: { ...path, volume_id }, query } }),
        );
        found.push(...page);
        after = page.at(-1)?.name;
        if (page.length < pageSize) return found;
      }
    },
    columns: {
      NAME: ({ name, is_folder }) => (is_folder ? `${name}/` : name),
      SIZE: ({ size_bytes, is_folder }) => (is_folder ? "" : bytesText(size_bytes)),
      CHANGED: ({ last_modified }) => moment(last_modified),
    },
    none: "There are no files.",
  }),

  upload: changeCommand({
    name: "volumes upload",
    about: `Upload a file into the volume, or a folder with all that is in it. Each file replaces the one of its name in one step;
missing folders are created.`,
    examples: [
      "volumes upload model.bin",
      "volumes upload model.bin models/v2.bin",
      "volumes upload my-model models/",
    ],
    of: "project",
    operands: [
      { name: "file", about: "A file or a folder of this machine." },
      {
        ...pathOperand,
        about:
          "Where it goes within the volume; with a / at its end, into that folder. Default: its own name.",
        isOptional: true,
      },
    ],
    change: (at) =>
      uploadAny(at, { file: at.given.operand("file"), path: at.given.operand("path") }),
    said: ({ path, files, bytes }) =>
      `Uploaded ${path}, ${files === undefined ? "" : `${files} ${files === 1 ? "file" : "files"}, `}${bytesText(bytes)}. Apps see it at /persistent-storage/${path}`,
  }),

  download: changeCommand({
    name: "volumes download",
    about:
      'Download a file of the volume; "-" is standard output. A file that is here is replaced, which is asked before, once all of it has come.',
    examples: ["volumes download models/model.bin", "volumes download results.csv - | head"],
    of: "project",
    operands: [
      pathOperand,
      { name: "file", about: "Where to. Default: its own name, here.", isOptional: true },
    ],
    question: ({ given }) => {
      const file = targetOf(given.operand("path"), given.operand("file"));
      return file !== "-" && existsSync(file) ? `Replace ${file}?` : null;
    },
    hints: { 404: () => "To list the files: slipway volumes ls" },
    async change(at) {
      const path = at.given.operand("path");
      return await downloadFile(at, { path, to: targetOf(path, at.given.operand("file")) });
    },
    said: ({ file, bytes }) =>
      file === "-" ? `Downloaded ${bytesText(bytes)}.` : `Wrote ${file}, ${bytesText(bytes)}.`,
  }),

  remove: changeCommand({
    name: "volumes remove",
    about:
      "Remove a file of the volume, or with a / at its end a folder with all that is in it. This cannot be undone.",
    examples: ["volumes remove models/old.bin", "volumes remove models/ --yes"],
    of: "project",
    operands: [pathOperand],
    hints: { 404: () => "To list the files: slipway volumes ls" },
    question: ({ given }) => {
      const path = given.operand("path");
      return `Remove ${path}${path.endsWith("/") ? " and all that is in it" : ""}?`;
    },
    change: ({ api, path, given }) =>
      answerOf(
        api.DELETE(`${volumeRoute}/rm`, {
          params: { path: { ...path, volume_id }, query: { file_path: given.operand("path") } },
        }),
      ),
    said: ({ message }) => message,
  }),

  resize: changeCommand({
    name: "volumes resize",
    about:
      "Set how much the volume may hold. Uploads beyond it are refused, and replicas that write beyond it are ended.",
    examples: ["volumes resize 50"],
    of: "project",
    operands: [
      { name: "gigabytes", about: "A whole number of GB (10^9 bytes), such as 50 or 50GB." },
    ],
    async change({ api, path, given }) {
      const text = given.operand("gigabytes");
      const [, size] = /^(\d{1,7})(?: ?GB)?$/i.exec(text) ?? [];
      if (size === undefined)
        throw misuse(`The size is "${text}", but must be a whole number of gigabytes.`);
      const params = { path: { ...path, volume_id } };
      return await answerOf(
        api.PATCH(`${volumeRoute}/resize`, { params, body: { newSizeGb: Number(size) } }),
      );
    },
    said: ({ name, sizeGb }) => `The volume ${name} may hold ${sizeGb} GB.`,
  }),
};

/** Where a file of the volume is downloaded to. */
function targetOf(path: string, file: string): string {
  return file === "" ? basename(path) : file;
}
