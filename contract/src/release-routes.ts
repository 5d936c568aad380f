// Routes of releases: building a commit, what has been built, and going back.
import * as answers from "./answers.ts";
import { appFields } from "./app-fields.ts";
import type { Field } from "./field.ts";
import { nextToken, pageSize } from "./page-fields.ts";
import { paths, type Route } from "./route.ts";

/** The body of `…/builds`: at most one of them. */
const buildFields = {
  commit: {
    kind: "text",
    toml: null,
    form: /^[0-9a-f]{7,64}$/,
    allowed: "the id of a commit, or its first 7 digits or more: hexadecimal, in lower case",
    default: null,
    about: "The commit to build.",
  },
  branch: {
    ...appFields.gitBranch,
    default: null,
    defaultAbout: "the app's own",
    about:
      "Builds the newest commit of this branch, or this tag, once: the app's own branch does not change.",
  },
} as const satisfies Record<string, Field>;

/** The query of `…/releases`. */
const releaseQuery = {
  pageSize: pageSize(200, 50, "releases"),
  nextToken: nextToken("nextToken", /^[\w-]{1,60}$/),
} as const satisfies Record<string, Field>;

/** The body of `…/rollback`. */
const rollbackFields = {
  release: {
    kind: "integer",
    toml: null,
    min: 1,
    max: 2_147_483_647,
    default: null,
    defaultAbout: "the one before",
    about: "The number of the release to go back to.",
  },
} as const satisfies Record<string, Field>;

/** By operation id; part of the table in `routes.ts`. */
export const releaseRoutes = {
  createBuild: {
    method: "POST",
    path: `${paths.app}/builds`,
    about:
      "Builds the newest commit of the app's branch, or the given commit, or the newest one of the given branch, or the given tag. Ends the pause of automatic deploys that a rollback began.",
    access: "builds.create",
    audit: "build.create",
    body: { kind: "fields", fields: buildFields, required: [] },
    status: 201,
    answer: answers.receivedBuild,
  },
  listReleases: {
    method: "GET",
    path: `${paths.app}/releases`,
    about: "The releases of an app, newest first.",
    access: "apps.read",
    audit: null,
    query: releaseQuery,
    status: 200,
    answer: answers.releasePage,
  },
  getRelease: {
    method: "GET",
    path: `${paths.app}/releases/{release}`,
    about: "One release by its number, with its settings.",
    access: "apps.read",
    audit: null,
    status: 200,
    answer: answers.oneRelease,
  },
  rollBack: {
    method: "POST",
    path: `${paths.app}/rollback`,
    about:
      "Makes an earlier release live again without a build, by default the last one before that had all calls, and answers with it. Automatic deploys of an app with a repository are paused until somebody resumes them, or until a deploy by hand takes calls.",
    access: "apps.update",
    audit: "app.rollback",
    body: { kind: "fields", fields: rollbackFields, required: [] },
    status: 200,
    answer: answers.release,
  },
  resumeDeploys: {
    method: "POST",
    path: `${paths.app}/resume-deploys`,
    about: "Resumes automatic deploys that a rollback paused; the next push is deployed.",
    access: "apps.update",
    audit: "app.resume_deploys",
    status: 200,
    answer: answers.messageAnswer,
  },
} as const satisfies Record<string, Route>;
