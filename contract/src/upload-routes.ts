// Routes of deployments by upload: the app and its build, and the address where the files go.
import { z } from "zod";
import { bytes, createdApp } from "./answers.ts";
import { paths, type Route } from "./route.ts";
import { fileRunFields } from "./file-run-fields.ts";
import { uploadFields } from "./upload-fields.ts";
import { buildStates } from "./words.ts";

/** The answer of create app, and where the files go. */
export const startedUpload = createdApp.extend({
  /** Takes the zip without a token; anyone who knows it can. */
  uploadUrl: z.url(),
  /** The name of the upload. */
  keyName: z.string(),
});

/** What has arrived of an upload. */
export const uploadState = z.strictObject({
  buildId: z.uuid(),
  buildStatus: z.enum(buildStates),
  /** How many bytes are stored: a request with `Content-Range` continues after them. */
  receivedBytes: z.int().min(0),
  isComplete: z.boolean(),
});

/** The name under which files can run. */
export const fileRunApp = z.strictObject({ appId: z.string(), appName: z.string() });

/** What a file needs; it is made with the build of the run. */
export const fileRunEnvironment = z.strictObject({
  status: z.literal("ready"),
  digest: z.string(),
});

/** The run of a file. */
export const fileRun = z.strictObject({ runId: z.uuid() });

const upload = "/v2/uploads/{upload_key}";

/** The path of an app that need not exist, by its id or its name. */
const fileRuns = "/v3/projects/{project_id}/apps/{run_app}";

/** By operation id; part of the table in `routes.ts`. */
export const uploadRoutes = {
  deployUpload: {
    method: "POST",
    path: `${paths.project}/apps`,
    about:
      "Deploys files that are uploaded: creates the app, or a build of the app of that name, which also takes the permission builds.create, and with changed fields apps.update. The build waits for a zip of the app's folder at `uploadUrl` (see PUT /v2/uploads/{upload_key}). Fields that are null count as absent. Of an existing app, fields that are left out keep what the API has set.",
    access: "apps.create",
    audit: "app.create",
    body: { kind: "fields", fields: uploadFields, required: [] },
    status: 201,
    answer: startedUpload,
  },
  deployPartnerApp: {
    method: "POST",
    path: `${paths.project}/partner-apps`,
    about: "Services of partners are not part of this platform: always refused with status 422.",
    access: "apps.create",
    audit: null,
    status: 201,
    answer: startedUpload,
  },
  createRunApp: {
    method: "POST",
    path: `${fileRuns}/create-run-app`,
    about:
      "The first request of clients that run a file once: says whether files can run as the app of that name. Makes nothing yet: the app is created with its first run. 409 when an app of that name was deployed.",
    access: "apps.create",
    audit: null,
    status: 200,
    answer: fileRunApp,
    query: { region: fileRunFields.region },
  },
  makeRunEnvironment: {
    method: "POST",
    path: `${fileRuns}/base-image`,
    about:
      "Takes what a file needs, as JSON `{dependencies: {pip, conda, apt}, preBuildCommands, shellCommands, baseImageURI}`: packages with their versions, and commands as texts in base64. The answer is ready at once, and its digest stands for what was asked for: the build of the run that names it makes the environment, and later runs of the app with the same packages use that again.",
    access: "apps.create",
    audit: null,
    status: 200,
    answer: fileRunEnvironment,
    query: { region: fileRunFields.region },
    takesBytes: true,
  },
  runFile: {
    method: "POST",
    path: `${fileRuns}/run`,
    about:
      "Runs a file once: deploys the files of a tar as the app, which is created when it is missing, and then calls `functionName` of the file with the fields of data.json, or without it runs the file as a script. The body is multipart/form-data with the parts `data` (JSON, at most as long as the body of an async call) and `file` (the tar, without links). The run is there at once and waits for the build; of this run the status of an end without success is `failed`. For an app that exists, the permissions builds.create and apps.update are needed too. 409 while an earlier file of the app is built or runs, and for an app that was deployed.",
    access: "apps.create",
    audit: "app.create",
    status: 200,
    answer: fileRun,
    query: fileRunFields,
    takesStream: true,
  },
  putUpload: {
    method: "PUT",
    path: upload,
    about:
      "Takes the zip of a deployment, whose build then starts. The address is its own proof: no token is needed. It works for 3 hours, until the zip is complete. A zip may come in parts, one after the other, each with `Content-Range: bytes {first}-{last}/{size}`; after a lost connection GET says how much is stored. A request without it starts again.",
    access: "public",
    audit: null,
    takesStream: true,
    status: 200,
    answer: uploadState,
  },
  downloadBuild: {
    method: "GET",
    path: `${paths.app}/builds/{build_id}/download`,
    about:
      "The files of a build of uploaded files, as the zip that was sent. Needs the permission builds.create. 409 for a build of a repository, whose files are there at the build's commit, and for a build whose files have not arrived or were removed.",
    access: "builds.create",
    audit: "build.download",
    status: 200,
    answer: bytes,
    isBytes: true,
  },
  getUpload: {
    method: "GET",
    path: upload,
    about: "How much of the zip of a deployment has arrived.",
    access: "public",
    audit: null,
    status: 200,
    answer: uploadState,
  },
} as const satisfies Record<string, Route>;
