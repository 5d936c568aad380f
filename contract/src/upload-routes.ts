// Routes of deployments by upload: the app and its build, and the address where the files go.
import { z } from "zod";
import { bytes, createdApp } from "./answers.ts";
import { paths, type Route } from "./route.ts";
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

const upload = "/v2/uploads/{upload_key}";

/** Of an app that need not exist. */
const fileRuns = "/v3/projects/{project_id}/apps/{run_app}";
const notHere =
  "Running a file without a deployment is not part of this platform: always refused with status 422 and what to do instead.";

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
    about: `The first request of clients that run a file once. ${notHere}`,
    ...{ access: "apps.create", audit: null, status: 201, answer: startedUpload },
  },
  makeRunEnvironment: {
    method: "POST",
    path: `${fileRuns}/base-image`,
    about: `Where such clients have the packages of a file installed. ${notHere}`,
    ...{ access: "apps.create", audit: null, status: 201, answer: startedUpload },
  },
  runFile: {
    method: "POST",
    path: `${fileRuns}/run`,
    about: `Where such clients send the file. ${notHere}`,
    ...{ access: "apps.create", audit: null, status: 201, answer: startedUpload },
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
