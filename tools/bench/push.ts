// Time from a push to the first answer of the new code, for a change of code only: a real git push
// to a real git server, whose hook calls a whole platform. Calls go on all the time, so that the
// app is warm and the first new answer is noticed.
import { startGitServer } from "@slipway/server/test/support/git-server.ts";
import {
  answering,
  openPushedApp,
  type PushedApp,
} from "@slipway/server/test/support/pushed-app.ts";
import type { PlatformProcess } from "@slipway/server/test/support/platform-process.ts";
import type { Benchmark, Report } from "./harness/benchmark.ts";
import type { Context } from "./harness/context.ts";
import { defaultDockerHost } from "./harness/docker.ts";
import { digits, medianAndRange, table } from "./harness/markdown.ts";
import { startBenchPlatform } from "./harness/platform.ts";
import { inRounds, roundText } from "./harness/rounds.ts";

/** Milliseconds of one round, by what was waited for; the parts add up to the total. */
type PushRound = {
  readonly totalMs: number;
  /** `git push` itself, until the hook's call arrives. */
  readonly arrivalMs: number;
  /** Until the verdict: git is asked for the head of the branch. */
  readonly verdictMs: number;
  /** Until a worker starts the build. */
  readonly queueMs: number;
  /** Source, plan, artifact, start of the new replica, promotion. */
  readonly buildMs: number;
  /** Until the first new answer. */
  readonly answerMs: number;
};

const answerWaitMs = 60_000;
const toml = `[cerebrium.deployment]\nname = "pushed"\n[cerebrium.scaling]\ncooldown = 600\n`;

/** `push` */
export const push: Benchmark<{ readonly rounds: number }> = {
  name: "push",
  measures: "From `git push` to the first answer of the new code",
  heading: "Push to live",
  options: { rounds: 7 },
  run: ({ rounds }, context) => measurePushes(rounds, undefined, context),
};

/** `docker-push` */
export const dockerPush: Benchmark<{ readonly rounds: number; readonly "docker-host": string }> = {
  name: "docker-push",
  measures: "From `git push` to the first answer of the new code, as an image",
  heading: "Push to live with Docker",
  options: { rounds: 7, "docker-host": defaultDockerHost },
  run: ({ rounds, "docker-host": host }, context) => measurePushes(rounds, host, context),
};

async function measurePushes(
  rounds: number,
  dockerHost: string | undefined,
  { t, print }: Context,
): Promise<Report> {
  const server = await startGitServer(t);
  const settings = { SLIPWAY_GIT_URL: server.urlTemplate, SLIPWAY_GIT_POLL_SECONDS: "0" };
  const platform = await startBenchPlatform(t, settings, dockerHost);
  const app = await openPushedApp(t, { platform, server, statuses: [] }, { repo: "pushed" });
  await app.clone.commit({ "slipway.toml": toml });
  // The first round makes the environment.
  const all = await inRounds(rounds, async (round) => {
    const measured = await pushOnce(app, platform, `v${round}`);
    print(`${roundText(round)}: ${partsText(measured)}`);
    return measured;
  });
  const row = (what: string, timeOf: (one: PushRound) => number): string[] => [
    what,
    ...medianAndRange(all.map(timeOf), digits(0), " ms"),
  ];
  return {
    conditions: `${rounds} pushes of a change of code, with calls going on.`,
    body: table(
      ["from the start of `git push`", "median", "min – max"],
      [
        row("to the first answer of the new code", ({ totalMs }) => totalMs),
        row("– the push, and the hook of the git server", ({ arrivalMs }) => arrivalMs),
        row("– verdict: the head of the branch is read", ({ verdictMs }) => verdictMs),
        row("– until the build starts", ({ queueMs }) => queueMs),
        row("– build, start of the new replica, promotion", ({ buildMs }) => buildMs),
        row("– until the next answer", ({ answerMs }) => answerMs),
      ],
    ),
  };
}

type Delivery = {
  readonly buildId: string;
  readonly receivedAt: string;
  readonly decidedAt: string;
};
type Build = { readonly startedAt: string; readonly endedAt: string };

async function pushOnce(
  app: PushedApp,
  platform: PlatformProcess,
  answer: string,
): Promise<PushRound> {
  await app.clone.commit({ "main.py": answering(answer) });
  const began = Date.now();
  const pushed = app.clone.git("push", "--quiet", "origin", "HEAD");
  while ((await app.answers()) !== answer) {
    if (Date.now() - began > answerWaitMs)
      throw new Error(`the app did not answer ${answer} within ${answerWaitMs} ms`);
  }
  const answered = Date.now();
  await pushed;
  const [delivery] = (await app.deliveries()) as readonly Delivery[];
  if (delivery === undefined) throw new Error("the push did not arrive");
  const build = (await platform.api("GET", `${app.path}/builds/${delivery.buildId}`)).body as Build;
  const received = Date.parse(delivery.receivedAt);
  const decided = Date.parse(delivery.decidedAt);
  const started = Date.parse(build.startedAt);
  const ended = Date.parse(build.endedAt);
  return {
    totalMs: answered - began,
    arrivalMs: received - began,
    verdictMs: decided - received,
    queueMs: started - decided,
    buildMs: ended - started,
    answerMs: answered - ended,
  };
}

/** In words, in the order in which they pass. */
function partsText(round: PushRound): string {
  const { totalMs, arrivalMs, verdictMs, queueMs, buildMs, answerMs } = round;
  return `${totalMs} ms = ${arrivalMs} push + ${verdictMs} verdict + ${queueMs} queue + ${buildMs} build + ${answerMs} answer`;
}
