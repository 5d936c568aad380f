// Routes of releases: building a commit, and what has been built.
import * as answers from "./answers.ts";
import { appFields } from "./app-fields.ts";
import type { Field } from "./field.ts";
import { paths, type Route } from "./route.ts";

/** The body of `…/builds`: at most one of them. */
export const buildFields = {
  commit: {
    kind: "text",
    toml: null,
    form: /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/,
    allowed: "a full commit id: 40 or 64 hexadecimal digits in lower case",
    default: null,
    about: "The commit to build.",
  },
  branch: {
    ...appFields.gitBranch,
    default: null,
    defaultAbout: "the app's own",
    about: "Builds the newest commit of this branch, once: the app's own branch does not change.",
  },
} as const satisfies Record<string, Field>;

/** By operation id; part of the table in `routes.ts`. */
export const releaseRoutes = {
  createBuild: {
    method: "POST",
    path: `${paths.app}/builds`,
    about:
      "Builds the newest commit of the app's branch, or the given commit, or the newest one of the given branch. Ends the pause of automatic deploys that a rollback began.",
    access: "builds.create",
    audit: "build.create",
    body: { kind: "fields", fields: buildFields, required: [] },
    status: 201,
    answer: answers.receivedBuild,
  },
} as const satisfies Record<string, Route>;
