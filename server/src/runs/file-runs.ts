// Runs files: one transaction adds the deployment of the files and a run that waits for its build.
// When the build has ended, the run begins on the release that the build made, or ends with the
// reason why there is none.
import { basename } from "node:path/posix";
import type { Permission } from "@slipway/contract/words.ts";
import type { CheckedUpload, UploadDeployments } from "#apps/upload-deployments.ts";
import type { Routes } from "#apps/routes.ts";
import type { By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import { isTooDeep, jsonTooDeep } from "#lib/json-depth.ts";
import { newRunId, type ProjectId, type ReplicaId, type RunId } from "#lib/ids.ts";
import { isObject } from "#lib/is-object.ts";
import { digestOf, environmentText, textOfDigest } from "./file-environment.ts";
import { fileRunBody, fileRunPath, type FileRunArguments } from "./file-run-entry.ts";
import * as store from "./file-run-store.ts";
import type { SchedulerParts } from "#scheduler/scheduler.ts";
import type { Foundation } from "#store/foundation.ts";

export type FileRunsOptions = {
  readonly uploadDeployments: Pick<UploadDeployments, "check" | "start" | "requireForFiles">;
  /** The maximum size of the data. */
  readonly bodyBytesMax: number;
};

/** The fields of a request that describe the app of the file; null: the default. */
export type FileRunWish = {
  readonly name: string;
  readonly imageDigest: string | null;
  readonly region: string | null;
  readonly computeType: string | null;
  readonly gpuCount: number | null;
  readonly cpu: number | null;
  readonly memoryGb: number | null;
};

type NewFileRun = FileRunArguments & {
  readonly projectId: ProjectId;
  /** The result of `check`. */
  readonly checked: CheckedUpload;
  /** The paths of the files that were sent. */
  readonly files: ReadonlySet<string>;
  readonly clientAddress: string;
  readonly by: By;
  /** Throws unless the caller has the permission. */
  readonly requires: (permission: Permission) => void;
};

/** The use cases of file runs. */
export class FileRuns {
  readonly dataBytesMax: number;
  readonly #deployments: FileRunsOptions["uploadDeployments"];

  constructor({ uploadDeployments, bodyBytesMax }: FileRunsOptions) {
    this.dataBytesMax = bodyBytesMax;
    this.#deployments = uploadDeployments;
  }

  /** Throws `Fault("invalid" | "conflict")` when files cannot run as the app of that name. */
  async requireName(projectId: ProjectId, name: string): Promise<void> {
    this.#deployments.check({ name });
    await this.#deployments.requireForFiles(projectId, name);
  }

  /** The digest of a request in JSON. Throws `Fault("malformed" | "invalid" | "too_large")`. */
  environment(name: string, body: Buffer): string {
    const text = environmentText(body);
    this.#deployments.check({ name, config_toml: text });
    return digestOf(text);
  }

  /** Checks the fields of a request. Throws `Fault("invalid")`. */
  check({ imageDigest, computeType, memoryGb, ...fields }: FileRunWish): CheckedUpload {
    return this.#deployments.check({
      ...fields,
      compute: computeType === null ? null : [computeType],
      memory: memoryGb,
      runtime: "cortex",
      // The program changes the folder and `sys.modules` of its process, so runs do not overlap.
      replicaConcurrency: 1,
      config_toml: imageDigest === null ? null : textOfDigest(imageDigest),
    });
  }

  /**
   * Starts a run that waits for the files of the upload. Throws `Fault("invalid" | "malformed" |
   * "forbidden" | "conflict" | "rate_limited")`.
   */
  async start(fileRun: NewFileRun): Promise<{ readonly runId: RunId; readonly uploadId: string }> {
    const { files, functionName, data, clientAddress, ...deployment } = fileRun;
    const filename = fileOf(fileRun.filename, files);
    requireObject(data);
    const runId = newRunId();
    const body = fileRunBody({ filename, functionName, data });
    const shownPath = `/${functionName ?? basename(filename)}`;
    const run = { runId, shownPath, target: fileRunPath, clientAddress, body };
    const { uploadId } = await this.#deployments.start({
      ...deployment,
      fileRun: {
        async check(tx, appId) {
          const earlier = await store.readUnfinishedFileRun(tx, appId);
          if (earlier === undefined) return;
          const how = "wait until it has ended, cancel it, or run the file under another name";
          throw new Fault("conflict", `Run ${earlier} of another file has not ended yet: ${how}.`);
        },
        add: (tx, build) => store.addWaitingRun(tx, build, run),
      },
    });
    return { runId, uploadId };
  }
}

/**
 * The path of the file in the tar. Clients may name the file by its path on their disk, while the
 * tar begins at the file's folder.
 */
function fileOf(filename: string, files: ReadonlySet<string>): string {
  const path = filename.split("/").filter((part) => part !== "" && part !== ".");
  // The whole path, or else only the name of the file.
  const candidates = [path.join("/"), path.at(-1) ?? ""];
  const match = candidates.find((candidate) => files.has(candidate));
  if (match !== undefined) return match;
  throw new Fault(
    "invalid",
    `filename is ${JSON.stringify(filename)}, but the tar has no such file.`,
  );
}

function requireObject(data: string): void {
  if (isTooDeep(data)) throw new Fault("malformed", jsonTooDeep);
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch (error) {
    throw new Fault("malformed", "data is not JSON.", { cause: error });
  }
  if (isObject(value)) return;
  throw new Fault(
    "invalid",
    "data must be a JSON object: its fields are the arguments of the function.",
  );
}

export type SettleParts = Pick<Foundation, "db" | "clock"> & {
  readonly routes: Pick<Routes, "byAppId">;
  /** The store of the lines that apps print. */
  readonly lines: Pick<SchedulerParts["lines"], "append">;
};

/**
 * One turn for runs whose builds have ended: each begins, or ends with the reason why it cannot.
 * Repeatable.
 */
export async function settleBuiltRuns({ db, routes, clock, lines }: SettleParts): Promise<void> {
  for (const run of await store.readBuiltRuns(db)) {
    const { runId, projectId, appId, isWaiting, releaseId } = run;
    const reason = whyNeverRun(run);
    // The run begins only when this process, too, sends calls to its release.
    const takesCalls = routes.byAppId(appId)?.live?.releaseId === releaseId;
    if (reason !== null) {
      // Clients that follow the lines of the run show the reason only as one of these lines.
      const line = {
        projectId,
        appId,
        replicaId: buildReplica,
        runId,
        at: clock.now(),
        stream: "stderr",
      } as const;
      await lines.append([{ ...line, text: reason }]);
      await store.failWaitingRun(db, runId, reason);
    } else if (isWaiting && takesCalls) {
      await store.releaseRun(db, run);
    }
  }
}

/** Why the run will never begin; null: the release of its build is the app's live release. */
function whyNeverRun({ build, releaseId, liveReleaseId }: store.WaitingRun): string | null {
  if (build?.status !== "success") return whyNotBuilt(build);
  return releaseId === null || liveReleaseId !== releaseId ? replacedText : null;
}

/** Lines about builds come from no replica; this id takes the place of a replica's. */
const buildReplica = "build" as ReplicaId;

const replacedText = "Another release of the app took its place before the file ran.";

function whyNotBuilt(build: store.WaitingRun["build"]): string {
  if (build === null) return "The build of its files was removed.";
  return `The build of its files ended as ${build.status}. ${build.reason ?? ""}`.trimEnd();
}
