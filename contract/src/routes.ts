// All routes of the management API: method, path, required permission, audit action and shapes. The
// server registers exactly these, and OpenAPI is generated from them.
import * as answers from "./answers.ts";
import { containerList, endedContainerList } from "./container-answers.ts";
import { announcementRoutes } from "./announcement-routes.ts";
import { appFields } from "./app-fields.ts";
import { auditRoutes } from "./audit-routes.ts";
import { billingRoutes } from "./billing-routes.ts";
import { certificateRoutes } from "./certificate-routes.ts";
import { deviceRoutes } from "./device-routes.ts";
import { domainRoutes } from "./domain-routes.ts";
import { gitRoutes } from "./git-routes.ts";
import {
  appLogQuery,
  buildLogQuery,
  changeQuery,
  credentialFields,
  secretQuery,
  secretValues,
} from "./parameters.ts";
import { execRoutes } from "./exec-routes.ts";
import { hardwareRoutes } from "./hardware-routes.ts";
import { lifecycleRoutes } from "./lifecycle-routes.ts";
import { metricsRoutes } from "./metrics-routes.ts";
import { passwordRoutes } from "./password-routes.ts";
import { peopleRoutes } from "./people-routes.ts";
import { planRoutes } from "./plan-routes.ts";
import { projectRoutes } from "./project-routes.ts";
import { releaseRoutes } from "./release-routes.ts";
import { repositoryRoutes } from "./repository-routes.ts";
import { paths, type Route } from "./route.ts";
import { rollOutRoutes } from "./roll-out-routes.ts";
import { runRoutes } from "./run-routes.ts";
import { tokenRoutes } from "./token-routes.ts";
import { uploadRoutes } from "./upload-routes.ts";
import { usageRoutes } from "./usage-routes.ts";
import { volumeRoutes } from "./volume-routes.ts";
import { webhookRoutes } from "./webhook-routes.ts";

const { project, app } = paths;
const buildPath = `${app}/builds/{build_id}` as const;
const credentialPath = `${project}/git-credentials/{host}` as const;

/** All routes of the API, by operation id. */
export const routes = {
  createGitApp: {
    method: "POST",
    path: `${project}/apps/git`,
    about:
      "Creates an app linked to a git repository and starts its first build. A field that is null counts as absent.",
    access: "apps.create",
    audit: "app.create",
    body: { kind: "fields", fields: appFields, required: ["gitRepo"] },
    status: 201,
    answer: answers.createdApp,
  },
  ...uploadRoutes,
  listApps: {
    method: "GET",
    path: `${project}/apps`,
    about: "The apps of a project, by name.",
    access: "apps.read",
    audit: null,
    status: 200,
    answer: answers.appList,
  },
  getApp: {
    method: "GET",
    path: app,
    about:
      "One app, with the settings of its live release (before the first one: of its latest build). Numbers are strings.",
    access: "apps.read",
    audit: null,
    status: 200,
    answer: answers.appDetail,
  },
  updateApp: {
    method: "PATCH",
    path: app,
    about:
      "Changes settings of an app. A field that is null is no longer set here: what the files or the default say counts again. What a change takes is in the table of settings: nothing (live), a new release of the same artifact (replica) or a new build; the answer says it.",
    access: "apps.update",
    audit: "app.update",
    query: changeQuery,
    body: { kind: "fields", fields: appFields, required: [], areNullable: true },
    status: 200,
    answer: answers.changedApp,
  },
  listBuilds: {
    method: "GET",
    path: `${app}/builds`,
    about: "The latest 100 builds of an app, newest first.",
    access: "apps.read",
    audit: null,
    status: 200,
    answer: answers.buildList,
  },
  ...releaseRoutes,
  ...rollOutRoutes,
  getBuild: {
    method: "GET",
    path: buildPath,
    about: "One build.",
    access: "apps.read",
    audit: null,
    status: 200,
    answer: answers.build,
  },
  cancelBuild: {
    method: "DELETE",
    path: buildPath,
    about: "Cancels a build that has not ended.",
    access: "builds.cancel",
    audit: "build.cancel",
    status: 200,
    answer: answers.build,
  },
  rebuild: {
    method: "POST",
    path: `${buildPath}/rebuild`,
    about:
      "Starts a new build of the same commit with the same settings. Takes no body: for a branch or another commit, see POST …/builds.",
    access: "builds.create",
    audit: "build.rebuild",
    status: 201,
    answer: answers.receivedBuild,
  },
  getBuildLogs: {
    method: "GET",
    path: `${buildPath}/logs`,
    about:
      "The log of a build, oldest line first. With `Accept: text/event-stream` or `follow=true` it is followed live as server-sent events, each with the line as JSON and its number as id (`Last-Event-ID` resumes after it), until an event `end` reports the final status.",
    access: "logs.read",
    audit: null,
    query: buildLogQuery,
    status: 200,
    answer: answers.buildLogPage,
    events: answers.buildLogLine,
  },
  getAppLogs: {
    method: "GET",
    path: `${app}/logs`,
    about:
      "The output of the replicas of an app. With `Accept: text/event-stream` or `follow=true` what they print from now on is followed live as server-sent events, each with the line as JSON and its `lineNumber` as id (`Last-Event-ID` resumes after it), in the order in which lines are stored.",
    access: "logs.read",
    audit: null,
    query: appLogQuery,
    status: 200,
    answer: answers.appLogPage,
    events: answers.appLogPage.shape.logs.element,
  },
  listContainers: {
    method: "GET",
    path: `${app}/containers`,
    about: "The replicas of an app that have not stopped.",
    access: "apps.read",
    audit: null,
    status: 200,
    answer: containerList,
  },
  listEndedContainers: {
    method: "GET",
    path: `${app}/containers/ended`,
    about:
      "The last 50 replicas of an app that have stopped, the newest first, each with why it ended. They are kept as long as runs and calls are listed, and for a month at least.",
    access: "apps.read",
    audit: null,
    status: 200,
    answer: endedContainerList,
  },
  listProjectContainers: {
    method: "GET",
    path: `${project}/containers`,
    about:
      "The replicas of all apps of a project that have not stopped, oldest first, at most 2,000.",
    access: "apps.read",
    audit: null,
    status: 200,
    answer: containerList,
  },
  ...execRoutes,
  ...metricsRoutes,
  ...hardwareRoutes,
  ...announcementRoutes,
  ...lifecycleRoutes,
  ...gitRoutes,
  ...domainRoutes,
  ...repositoryRoutes,
  ...projectRoutes,
  ...peopleRoutes,
  ...passwordRoutes,
  ...deviceRoutes,
  ...runRoutes,
  ...webhookRoutes,
  ...billingRoutes,
  ...certificateRoutes,
  ...usageRoutes,
  ...planRoutes,
  ...auditRoutes,
  ...volumeRoutes,
  ...tokenRoutes,
  getProjectSecrets: {
    method: "GET",
    path: `${project}/secrets`,
    about: "The secrets of a project, which all its apps see as environment variables.",
    access: "secrets.read",
    audit: "secrets.read",
    status: 200,
    answer: answers.secretMap,
  },
  setProjectSecrets: {
    method: "PATCH",
    path: `${project}/secrets`,
    about:
      "Replaces the secrets of a project with this map: names that are left out are removed. Replicas read secrets when they start: see `restart`.",
    access: "secrets.write",
    audit: "secrets.update",
    query: secretQuery,
    body: secretValues,
    status: 200,
    answer: answers.messageAnswer,
  },
  getAppSecrets: {
    method: "GET",
    path: `${app}/secrets`,
    about: "The secrets of an app; they override the project's.",
    access: "secrets.read",
    audit: "secrets.read",
    status: 200,
    answer: answers.secretMap,
  },
  setAppSecrets: {
    method: "PATCH",
    path: `${app}/secrets`,
    about:
      "Replaces the secrets of an app with this map: names that are left out are removed. Replicas read secrets when they start: see `restart`.",
    access: "secrets.write",
    audit: "secrets.update",
    query: secretQuery,
    body: secretValues,
    status: 200,
    answer: answers.messageAnswer,
  },
  listCredentials: {
    method: "GET",
    path: `${project}/git-credentials`,
    about: "The hosts that the project has git credentials for. The secrets are never shown.",
    access: "credentials.read",
    audit: "git_credentials.read",
    status: 200,
    answer: answers.credentialList,
  },
  getCredential: {
    method: "GET",
    path: credentialPath,
    about: "The kind of git credential that the project has for a host. The secret is never shown.",
    access: "credentials.read",
    audit: "git_credentials.read",
    status: 200,
    answer: answers.credential,
  },
  setCredential: {
    method: "PUT",
    path: credentialPath,
    about: "Sets the credential that repositories on a host are fetched with.",
    access: "credentials.write",
    audit: "git_credentials.update",
    body: { kind: "fields", fields: credentialFields, required: ["kind", "secret"] },
    status: 200,
    answer: answers.messageAnswer,
  },
  deleteCredential: {
    method: "DELETE",
    path: credentialPath,
    about: "Removes the git credential for a host.",
    access: "credentials.write",
    audit: "git_credentials.delete",
    status: 200,
    answer: answers.messageAnswer,
  },
  health: {
    method: "GET",
    path: "/healthz",
    about:
      "Liveness: 200 from the end of startup until the platform stops, even while its database is unavailable; otherwise 503.",
    access: "public",
    audit: null,
    status: 200,
    answer: answers.health,
  },
  ready: {
    method: "GET",
    path: "/readyz",
    about: "Readiness: 200 while calls and async runs are accepted; otherwise 503 with the reason.",
    access: "public",
    audit: null,
    status: 200,
    answer: answers.health,
  },
  keySet: {
    method: "GET",
    path: "/.well-known/jwks.json",
    about: "The public keys that verify tokens (RFC 7517).",
    access: "public",
    audit: null,
    status: 200,
    answer: answers.keySet,
  },
  openApi: {
    method: "GET",
    path: "/openapi.json",
    about: "This description of the API (OpenAPI 3.1).",
    access: "public",
    audit: null,
    status: 200,
    answer: answers.anyObject,
  },
} as const satisfies Record<string, Route>;

export type RouteId = keyof typeof routes;

/** All operation ids, in the order of the table. */
export const routeIds = Object.keys(routes) as RouteId[];
