// Opens the parts that deploy pushes: hook addresses, polling, verdicts, and the statuses of
// commits; and the part that lists repositories of git hosts for people who create an app.
import type { BuildReceiver } from "#apps/build-receiver.ts";
import type { GitHosts } from "#apps/repository.ts";
import { cpuSecondsFor, Git } from "#deploy/sources/git-command.ts";
import type { FindCredential } from "#deploy/sources/git-folder.ts";
import { GitRemote } from "#deploy/sources/git-remote.ts";
import type { OutwardGuard } from "#lib/outward-guard.ts";
import { OutwardClient } from "#lib/outward-request.ts";
import type { Foundation } from "#store/foundation.ts";
import { BranchPoll } from "./branch-poll.ts";
import { commitStatuses, type PushPages } from "./commit-statuses.ts";
import { GitHooks } from "./git-hooks.ts";
import { PushJudge } from "./push-judge.ts";
import { Repositories } from "./repositories.ts";

export type PushSettings = {
  readonly gitHosts: GitHosts;
  /** Allowed values of the field provider. */
  readonly providers: readonly string[];
  /** 0: branches are not polled. */
  readonly gitPollSeconds: number;
  /** The maximum size of a repository (SLIPWAY_GIT_SIZE_MB). */
  readonly gitSizeBytes: number;
  /** The environment variables with which git runs. */
  readonly toolEnvironment: Readonly<Record<string, string>>;
  readonly paths: { readonly sourcesDir: string };
};

type Parts = Foundation & {
  readonly builds: Pick<BuildReceiver, "receiveBuild">;
  readonly findCredential: FindCredential;
  readonly guard: OutwardGuard;
  readonly pages: PushPages;
};

/** The parts that the API uses. */
export type OpenedPushes = {
  readonly gitHooks: GitHooks;
  readonly repositories: Repositories;
};

/** Opens the parts. Their loops begin when the platform starts, and end when it stops. */
export function openPushes(settings: PushSettings, parts: Parts): OpenedPushes {
  const { gitHosts: hosts, gitSizeBytes: bytesMax, gitPollSeconds, paths } = settings;
  const { lifecycle, clock, guard, findCredential } = parts;
  const git = new Git({ ...settings, cpuSecondsMax: cpuSecondsFor(bytesMax) });
  const remote = new GitRemote({
    git,
    hosts,
    bytesMax,
    sourcesDir: paths.sourcesDir,
    findCredential,
    clock,
  });
  const client = new OutwardClient({ guard, clock, userAgent: "Slipway" });
  const judge = new PushJudge({ ...parts, remote });
  const onDelivery = (): void => judge.loop.nudge();
  const poll = new BranchPoll({ ...parts, remote, onDelivery, pollMs: gitPollSeconds * 1000 });
  const loops = [
    commitStatuses({ ...parts, client, remote }),
    ...(gitPollSeconds > 0 ? [poll.loop] : []),
  ];
  // This also closes the client if the platform ends before the loops have started.
  lifecycle.onClose("calls to git hosts", () => client.close());
  lifecycle.onStart(async () => {
    await remote.clean();
    judge.loop.start();
    lifecycle.onClose("pushes", () => judge.stop());
    for (const loop of loops) {
      loop.start();
      lifecycle.onClose("pushes", () => loop.stop());
    }
    // Registered last, so closed first: closing the client ends the requests for which the loops
    // would wait.
    lifecycle.onClose("calls of pushes", () => client.close());
  });
  return {
    gitHooks: new GitHooks({ ...parts, hosts, onDelivery }),
    repositories: new Repositories({
      ...parts,
      remote,
      client,
      hosts,
      providers: settings.providers,
    }),
  };
}
