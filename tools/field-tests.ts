// The tests that see the effect of each field of an app from outside, by driver. docs/fields.md is
// made of it.
import type { FieldName } from "@slipway/contract/app-fields.ts";

/**
 * A test by its file in server/test (of a pure one: its path in server/src) and a part of its
 * title; `in`: the file in support that has the title. `but`: what it does not see. `not`: why
 * there is none.
 */
export type SeenBy =
  | { readonly file: string; readonly test: string; readonly in?: string; readonly but?: string }
  | { readonly not: string };

type Driver = "any" | "process" | "docker";

const effects = (test: string): SeenBy => ({ file: "field-effects.test.ts", test });
const driven = (test: string): SeenBy => ({ ...effects(test), in: "field-effects.ts" }) as SeenBy;
const both = (test: string): Partial<Record<Driver, SeenBy>> => ({
  process: driven(test),
  docker: driven(test),
});
const scaling: SeenBy = {
  file: "guides-walk.test.ts",
  test: "the guide scaling",
};
const inContainers = (test: string): SeenBy => ({
  file: "docker-examples.test.ts",
  test,
  in: "folder-scenarios.ts",
});
const onlyImages: SeenBy = {
  not: "The build log warns: processes run on the machine's own system.",
};

/** By field: a test for each driver, or one for `any` where it makes no difference. */
export const fieldTests: Readonly<Record<FieldName, Partial<Record<Driver, SeenBy>>>> = {
  cliVersion: { any: effects("cliVersion") },
  gitRepo: {
    any: { file: "pushes.test.ts", test: "the new code answers, and the delivery names its build" },
  },
  name: { any: { file: "create-app.test.ts", test: "an app is created with its first build" } },
  baseImage: {
    process: onlyImages,
    docker: inContainers("a folder with a base image from a private registry"),
  },
  buildSecrets: {
    process: {
      file: "build-secrets.test.ts",
      test: "packages come from an index whose address has a build secret",
    },
    docker: {
      file: "docker-build-secrets.test.ts",
      test: "a build gets the secrets that its settings name",
    },
  },
  config_toml: { any: { file: "create-app.test.ts", test: "the name may stand in config_toml" } },
  compute: {
    any: {
      file: "scheduler-pools.test.ts",
      test: "of the types in compute the first with something free",
    },
  },
  computeTier: {
    any: { file: "reclaimed-runs.test.ts", test: "a run that is cut off for a protected replica" },
  },
  containerRuntime: {
    process: { not: "The build log says so: there is one kind of sandbox." },
    docker: {
      file: "docker-runtimes.test.ts",
      test: "containerRuntime chooses the runtime of an app's containers",
    },
  },
  cooldownPeriodSeconds: {
    any: {
      file: "scheduler.test.ts",
      test: "an idle replica is kept for the cooldownPeriodSeconds of its app",
    },
  },
  corsCredentials: {
    any: { file: "cors.test.ts", test: "pages of named origins call a function" },
  },
  corsHeaders: { any: { file: "cors.test.ts", test: "pages of named origins call a function" } },
  corsOrigins: { any: { file: "cors.test.ts", test: "pages of named origins call a function" } },
  cpu: {
    process: {
      file: "drivers-process-limits.test.ts",
      test: "a busy app gets the cores that it asked for and no more",
    },
    docker: driven("cpu"),
  },
  deploymentInitializationTimeout: {
    process: effects("deploymentInitializationTimeout"),
    docker: {
      file: "docker-examples.test.ts",
      test: "a start that fails in a container is named with its reason",
    },
  },
  disableAuth: {
    any: { file: "proxy-calls.test.ts", test: "an app without authentication takes every call" },
  },
  dockerAuth: {
    process: {
      file: "deployments.test.ts",
      test: "the log says that credentials of images have no effect",
    },
    docker: {
      file: "docker-images.test.ts",
      test: "a private base image is pulled with the app's credentials",
    },
  },
  dockerfilePath: {
    process: { file: "build.test.ts", test: "a Dockerfile is refused, saying what to do instead" },
    docker: inContainers("a folder with its own Dockerfile: its CMD starts the app"),
  },
  egressCidrs: {
    process: {
      file: "egress-platform.test.ts",
      test: "an app's way out is what a change makes it",
    },
    docker: { file: "egress-platform.test.ts", test: "an app's way out is what a change makes it" },
  },
  entrypoint: both("entrypoint"),
  evaluationIntervalSeconds: {
    any: effects("scalingTarget, scalingMetric and evaluationIntervalSeconds"),
  },
  gitAutoDeploy: {
    any: { file: "pushes.test.ts", test: "with gitAutoDeploy false nothing is built" },
  },
  gitBranch: {
    any: {
      file: "pushes.test.ts",
      test: "other branches, tags and deleted branches are not deployed",
    },
  },
  gitLfs: {
    any: { file: "source-lfs.test.ts", test: "files of Git LFS take the place of their pointers" },
  },
  gitSubmodules: {
    any: { file: "source-submodules.test.ts", test: "submodules are fetched at their commits" },
  },
  gitPath: {
    any: { file: "pushes.test.ts", test: "only pushes that touch the app's folder are deployed" },
  },
  gpuCount: {
    process: { file: "gpus.test.ts", test: "see the cards that are theirs and no other" },
    docker: {
      file: "drivers/docker/container-spec.test.ts",
      test: "a container is given the cards of its claim and no other",
      but: "it sees what the engine is asked for; never run on a real card",
    },
  },
  healthcheckEndpoint: both("healthcheckEndpoint"),
  keepPathPrefix: {
    any: { file: "app-hosts.test.ts", test: "an app that keeps its path is asked for all of it" },
  },
  loadBalancingAlgorithm: { any: effects("loadBalancingAlgorithm") },
  logLevel: { any: effects("logLevel") },
  maxReplicaCount: { any: scaling },
  memory: {
    process: {
      file: "drivers-process-limits.test.ts",
      test: "an app that takes more memory than its own is ended",
    },
    docker: {
      file: "docker-examples.test.ts",
      test: "an app that uses up its memory is named in the run",
    },
  },
  minReplicaCount: { any: scaling },
  partialUpload: {
    process: {
      file: "build.test.ts",
      test: "a build that starts clean takes no environment of an earlier one",
    },
    docker: { file: "docker-images.test.ts", test: "a clean start repeats each step" },
  },
  port: both("port"),
  provider: { any: effects("provider and region") },
  pythonVersion: {
    process: {
      file: "build.test.ts",
      test: "a version that the app asked for and that is not here is refused",
    },
    docker: { file: "docker-images.test.ts", test: "a cortex app gets its packages" },
  },
  readycheckEndpoint: both("readycheckEndpoint"),
  region: { any: effects("provider and region") },
  replicaConcurrency: { any: scaling },
  responseGracePeriodSeconds: {
    any: {
      file: "callers.test.ts",
      test: "a call without an answer within responseGracePeriodSeconds is a 504",
    },
  },
  retries: {
    any: {
      file: "docker-examples.test.ts",
      test: "tried again as often as its TOML says",
      in: "example-scenarios.ts",
    },
  },
  rollOutDurationSeconds: {
    any: { file: "roll-outs.test.ts", test: "in five steps, without a failed call" },
  },
  runtime: {
    process: {
      file: "examples.test.ts",
      test: "websocket-fastapi: a server of one's own",
      in: "example-scenarios.ts",
    },
    docker: {
      file: "docker-examples.test.ts",
      test: "websocket-fastapi: a server of one's own",
      in: "example-scenarios.ts",
    },
  },
  scalingBuffer: { any: scaling },
  scalingMetric: { any: effects("scalingTarget, scalingMetric and evaluationIntervalSeconds") },
  scalingTarget: { any: effects("scalingTarget, scalingMetric and evaluationIntervalSeconds") },
  storagePath: {
    process: { file: "app-storage.test.ts", test: "an app's own storage is seen by no other app" },
    docker: {
      file: "docker-app-storage.test.ts",
      test: "an app's own storage is seen by no other app",
    },
  },
  useUv: {
    process: { file: "build.test.ts", test: "uv installs packages when it is asked for" },
    docker: {
      file: "docker-images.test.ts",
      test: "packages are installed by uv when useUv is set",
    },
  },
};
