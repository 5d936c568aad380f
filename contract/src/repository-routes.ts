// The route that looks into a repository before there is an app. It changes nothing.
import { z } from "zod";
import { appFields } from "./app-fields.ts";
import type { Field } from "./field.ts";
import { paths, type Route } from "./route.ts";

const repositories = `${paths.project}/git-repositories` as const;

/** `GET …/git-repositories/branches`. */
export const branchList = z.strictObject({
  /** As it is stored: `owner/repo`, on other hosts with the address. */
  gitRepo: z.string(),
  defaultBranch: z.string().nullable(),
  branches: z.array(z.string()).meta({ description: "At most 500, the default branch first." }),
  hasMore: z.boolean(),
});

const gitRepo = {
  kind: "text",
  toml: null,
  form: /^[^\x00-\x1f\x7f]{1,500}$/,
  allowed: appFields.gitRepo.allowed,
  default: null,
  about: appFields.gitRepo.about,
} as const satisfies Field;

const branchQuery = { gitRepo } as const satisfies Record<string, Field>;

/** By operation id; part of the table in `routes.ts`. */
export const repositoryRoutes = {
  listBranches: {
    method: "GET",
    path: `${repositories}/branches`,
    about:
      "The branches of a repository, asked of its git host with the credential that the project has for it. Only hosts that builds fetch from.",
    access: "apps.create",
    audit: null,
    query: branchQuery,
    status: 200,
    answer: branchList,
  },
} as const satisfies Record<string, Route>;
