// The route that looks into a repository before there is an app. It changes nothing.
import { z } from "zod";
import { appFields } from "./app-fields.ts";
import type { Field } from "./field.ts";
import { searchText } from "./page-fields.ts";
import { paths, type Route } from "./route.ts";

const repositories = `${paths.project}/git-repositories` as const;

/** The answer of `GET …/git-repositories`. */
export const repositoryList = z.strictObject({
  items: z
    .array(z.string())
    .meta({ description: "As they are stored, those of the project's apps first." }),
  hosts: z
    .array(
      z.strictObject({
        host: z.string(),
        hasMore: z.boolean().meta({ description: "The host has others, which a search may find." }),
        problem: z.string().nullable().meta({ description: "Why the host could not be asked." }),
      }),
    )
    .meta({ description: "The git hosts for which the project has a token." }),
});

/** The answer of `GET …/git-repositories/branches`. */
export const branchList = z.strictObject({
  /** As it is stored: `owner/repo`, on other hosts with the address. */
  gitRepo: z.string(),
  defaultBranch: z.string().nullable(),
  branches: z.array(z.string()).meta({ description: "At most 500, the default branch first." }),
  hasMore: z.boolean(),
});

/** The answer of `GET …/git-repositories/settings`. */
export const foundSettings = z.strictObject({
  /** The root is "". */
  folders: z.array(z.string()).meta({
    description: "The folders that have a settings file, at most 200; the root is empty.",
  }),
  hasMore: z.boolean(),
  file: z
    .strictObject({
      name: z.string(),
      settings: z.array(
        z.strictObject({
          name: z.string().meta({ description: "A field of apps, or what only files set." }),
          value: z.unknown().meta({ description: "As the file has it." }),
          problem: z.string().nullable().meta({ description: "Why a build would refuse it." }),
        }),
      ),
      warnings: z.array(z.string()),
      problem: z.string().nullable().meta({
        description:
          "Why a build would refuse the file, or how its settings contradict each other.",
      }),
    })
    .nullable()
    .meta({ description: "The file that a build in the folder would use; null: there is none." }),
  hasDockerfile: z.boolean().meta({
    description: "The folder has a file Dockerfile, which is built if dockerfilePath says so.",
  }),
});

const gitRepo = {
  kind: "text",
  toml: null,
  form: /^[^\x00-\x1f\x7f]{1,500}$/,
  allowed: appFields.gitRepo.allowed,
  default: null,
  about: appFields.gitRepo.about,
} as const satisfies Field;

const repositoryQuery = {
  search: searchText(
    "Only repositories whose name contains this text; case-insensitive.",
    "all repositories",
  ),
} as const satisfies Record<string, Field>;

const branchQuery = { gitRepo } as const satisfies Record<string, Field>;

const settingsQuery = {
  gitRepo,
  gitBranch: {
    ...appFields.gitBranch,
    default: null,
    defaultAbout: "main, or the default branch where there is no main",
  },
  gitPath: appFields.gitPath,
} as const satisfies Record<string, Field>;

/** By operation id; part of the table in `routes.ts`. */
export const repositoryRoutes = {
  listRepositories: {
    method: "GET",
    path: repositories,
    about:
      "Repositories to deploy from: those that apps of the project have, and those that the project's tokens for GitHub, GitLab, Gitea and Forgejo can see, those changed last first.",
    access: "apps.create",
    audit: null,
    query: repositoryQuery,
    status: 200,
    answer: repositoryList,
  },
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
  readRepositorySettings: {
    method: "GET",
    path: `${repositories}/settings`,
    about:
      "Which folders of a branch, a tag or a commit have a settings file, and what the file of one folder sets, checked as a build does. Fetches no other file of the repository.",
    access: "apps.create",
    audit: null,
    query: settingsQuery,
    status: 200,
    answer: foundSettings,
  },
} as const satisfies Record<string, Route>;
