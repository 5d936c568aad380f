// Reports the builds of pushed commits to git hosts: pending, then success or failure, where a
// token of the project allows it. Compares the states of builds with the reported states, so that a
// restart loses nothing. No build waits for a report.
import type { BuildState } from "@slipway/contract/words.ts";
import { isEnd } from "#deploy/build-states.ts";
import type { FindCredential } from "#deploy/sources/git-folder.ts";
import type { GitRemote } from "#deploy/sources/git-remote.ts";
import { backoffMs } from "#lib/backoff.ts";
import { shownAppId, type AppId, type BuildId, type ProjectId } from "#lib/ids.ts";
import { Loop, type LoopOptions } from "#lib/loop.ts";
import type { OutwardClient } from "#lib/outward-request.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Notifications } from "#store/notify.ts";
import { noteReport, unreportedBuilds, type UnreportedBuild } from "./push-store.ts";
import { knownHostKind, statusRequest, type StatusState } from "./status-request.ts";

/** The URLs that reports contain. The area of the API implements them. */
export type PushPages = {
  readonly appEndpoint: (projectId: ProjectId, appName: string) => string;
  readonly buildPage: (build: { projectId: ProjectId; appId: AppId; buildId: BuildId }) => string;
};

export type CommitStatusParts = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly notifications: Pick<Notifications, "listen">;
  readonly client: Pick<OutwardClient, "post">;
  readonly remote: Pick<GitRemote, "urlOf">;
  readonly findCredential: FindCredential;
  readonly pages: PushPages;
};

/** The maximum number of reports in a turn, which are sent at the same time. */
const atOnceMax = 20;
/** The time between turns, for reports that are to be sent again; other turns are nudged. */
const intervalMs = 5_000;
/** How long one report may take. */
const timeoutMs = 10_000;
/** After this many failed tries, a build is not reported any more. */
const triesMax = 6;
/** The pauses between tries: 2 seconds, then four times as long each time, up to 10 minutes. */
const retries = { firstMs: 2_000, factor: 4, msMax: 600_000, jitter: 0.2 } as const;

/**
 * The loop that sends reports. Stopping it waits for the running requests, which have a timeout.
 */
export function commitStatuses(parts: CommitStatusParts): Loop {
  const { db, clock, log, notifications } = parts;
  const turn = async (): Promise<void> => {
    const builds = await unreportedBuilds(db, atOnceMax);
    await Promise.all(builds.map((build) => report(parts, build)));
    if (builds.length === atOnceMax) loop.nudge();
  };
  const listen: LoopOptions["listen"] = (nudge) => notifications.listen("builds", nudge);
  const loop = new Loop({ name: "commit statuses", turn, listen, intervalMs, clock, log });
  return loop;
}

/** Sends the report of one build, and notes whether and when another try follows. */
async function report(parts: CommitStatusParts, build: UnreportedBuild): Promise<void> {
  const { db, clock } = parts;
  const state = stateOf(build.status);
  const outcome = await sendReport(parts, build, state);
  if (outcome === "sent")
    return await noteReport(db, build.id, { reported: state, isLast: state !== "pending" });
  const tries = build.reportTries + 1;
  const failure = outcome === null ? null : outcome.reason;
  if (outcome === null || !outcome.mayRetry || tries >= triesMax) {
    return await noteReport(db, build.id, { reported: build.reported, failure, isLast: true });
  }
  const retryAt = new Date(clock.now() + backoffMs(retries, tries, clock.random()));
  await noteReport(db, build.id, {
    reported: build.reported,
    failure,
    tries,
    retryAt,
    isLast: false,
  });
}

/** Sends a report; null: the project has no token, or the host is not known to accept statuses. */
async function sendReport(
  { remote, findCredential, client, pages }: CommitStatusParts,
  build: UnreportedBuild,
  state: StatusState,
): Promise<"sent" | { reason: string; mayRetry: boolean } | null> {
  const source = remote.urlOf(build.gitRepo);
  // A file:// address has no host.
  if (!source.ok || source.value.host === "") return null;
  const kind = build.host ?? knownHostKind(source.value.host);
  const credential =
    kind === undefined ? null : await findCredential(build.projectId, source.value.host);
  if (kind === undefined || credential?.kind !== "token") return null;
  const { url, headers, body } = statusRequest(
    kind,
    { source: source.value, credential },
    {
      appId: shownAppId(build.appId),
      repository: source.value.path,
      commit: build.commit,
      state,
      url:
        state === "success"
          ? pages.appEndpoint(build.projectId, build.appName)
          : pages.buildPage(build),
      description: descriptionOf(build, state),
    },
  );
  // Only the status of the answer counts, so none of its body is read.
  const answer = await client.post(url, { headers, body, timeoutMs, answerBytesMax: 0 });
  if (answer.kind === "failed") return { reason: answer.reason, mayRetry: true };
  if (answer.status >= 200 && answer.status < 300) return "sent";
  // The host may accept the report later if it has failed itself, or has had too many requests.
  const mayRetry = answer.status >= 500 || answer.status === 429;
  return { reason: `${source.value.host} answered ${answer.status}`, mayRetry };
}

function stateOf(status: BuildState): StatusState {
  if (status === "success" || status === "cancelled") return status;
  return isEnd(status) ? "failure" : "pending";
}

function descriptionOf({ number, reason }: UnreportedBuild, state: StatusState): string {
  if (state === "pending") return `Build ${number} is in progress.`;
  if (state === "success") return `Build ${number} is deployed.`;
  return reason ?? `Build ${number} ${state === "cancelled" ? "was cancelled" : "has failed"}.`;
}
