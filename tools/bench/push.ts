// Time from a push to the first answer of the new code, for a change of code only: a real git push
// to a real git server, whose hook calls a whole platform. Calls go on all the time, so that the
// app is warm and the first new answer is noticed.
import { startGitServer } from "@slipway/server/test/support/git-server.ts";
import {
  answering,
  openPushedApp,
  type PushedApp,
} from "@slipway/server/test/support/pushed-app.ts";
import { startBenchPlatform } from "./docker.ts";
import { inContext } from "./in-context.ts";
import { median } from "./report.ts";

/** Milliseconds of one round, by what was waited for; the parts add up to the total. */
export type PushRound = {
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

const toml = `[cerebrium.deployment]\nname = "pushed"\n[cerebrium.scaling]\ncooldown = 600\n`;

/** Runs `rounds` rounds; prints as it goes. */
export async function benchPush(
  options: { readonly rounds: number; readonly settings: Record<string, string> },
  print: (line: string) => void,
): Promise<readonly PushRound[]> {
  return await inContext(async (t) => {
    const server = await startGitServer(t);
    const settings = {
      SLIPWAY_GIT_URL: server.urlTemplate,
      SLIPWAY_GIT_POLL_SECONDS: "0",
      ...options.settings,
    };
    const platform = await startBenchPlatform(t, settings);
    const app = await openPushedApp(t, { platform, server, statuses: [] }, { repo: "pushed" });
    await app.clone.commit({ "slipway.toml": toml });
    const rounds: PushRound[] = [];
    for (let round = 0; round <= options.rounds; round++) {
      const get = async (path: string): Promise<Build> =>
        (await platform.api("GET", path)).body as Build;
      const measured = await runRound(app, `v${round}`, get);
      // The first round makes the environment and warms the caches.
      if (round === 0) continue;
      rounds.push(measured);
      print(`round ${round}: ${partsOf(measured)}`);
    }
    return rounds;
  });
}

type Delivery = {
  readonly buildId: string;
  readonly receivedAt: string;
  readonly decidedAt: string;
};
type Build = { readonly startedAt: string; readonly endedAt: string };

async function runRound(
  app: PushedApp,
  answer: string,
  get: (path: string) => Promise<Build>,
): Promise<PushRound> {
  await app.clone.commit({ "main.py": answering(answer) });
  const began = Date.now();
  const pushed = app.clone.git("push", "--quiet", "origin", "HEAD");
  while ((await app.answers()) !== answer) {
    if (Date.now() - began > 60_000)
      throw new Error(`the app did not answer ${answer} within a minute`);
  }
  const answered = Date.now();
  await pushed;
  const [delivery] = (await app.deliveries()) as readonly Delivery[];
  if (delivery === undefined) throw new Error("the push did not arrive");
  const build = await get(`${app.path}/builds/${delivery.buildId}`);
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
function partsOf(round: PushRound): string {
  const { totalMs, arrivalMs, verdictMs, queueMs, buildMs, answerMs } = round;
  return `${totalMs} ms = ${arrivalMs} push + ${verdictMs} verdict + ${queueMs} queue + ${buildMs} build + ${answerMs} answer`;
}

/** The section of the document, in Markdown. */
export function pushSection(title: string, rounds: readonly PushRound[], machine: string): string {
  const of = (pick: (round: PushRound) => number): string => {
    const all = rounds.map(pick);
    return `${Math.round(median(all))} ms | ${Math.min(...all)} – ${Math.max(...all)} ms`;
  };
  return [
    `## ${title}`,
    "",
    `${new Date().toISOString().slice(0, 10)}, ${machine}. ${rounds.length} pushes of a change of code, with calls going on.`,
    "",
    "| from the start of `git push` | median | min – max |",
    "|---|---|---|",
    `| to the first answer of the new code | ${of((round) => round.totalMs)} |`,
    `| – the push, and the hook of the git server | ${of((round) => round.arrivalMs)} |`,
    `| – verdict: the head of the branch is read | ${of((round) => round.verdictMs)} |`,
    `| – until the build starts | ${of((round) => round.queueMs)} |`,
    `| – build, start of the new replica, promotion | ${of((round) => round.buildMs)} |`,
    `| – until the next answer | ${of((round) => round.answerMs)} |`,
    "",
  ].join("\n");
}
