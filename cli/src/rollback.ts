// `slipway rollback`: goes back to an earlier release, and waits until that takes the calls.
import { answerOf } from "@slipway/client/client.ts";
import { secondsOf } from "./life.ts";
import { plain } from "./plain-text.ts";
import { Refused } from "./refused.ts";
import { numberForm, numberOf } from "./releases.ts";
import { changeCommand, type At } from "./resource.ts";

const route = "/v2/projects/{project_id}/apps/{app_id}" as const;
const waitDefault = "10m";
/** The first looks come quickly, for small apps; later ones are rarer. */
const lookMs = { first: 100, factor: 1.5, max: 2000 };

/** The command that makes an earlier release live again. */
export const rollback = changeCommand({
  name: "rollback",
  about: `Make an earlier release live again, without a build; by default the one before. It waits until that release takes all
calls: until then, replicas of the other release serve. Pushes are then not deployed until you resume that or deploy by hand. A
number alone is a release of the folder's app.`,
  examples: ["rollback hello", "rollback hello 3", "rollback 3 --no-wait"],
  of: "app",
  hints: { 404: ({ path }) => `To list them: slipway releases list ${path.app_id}` },
  operands: [
    {
      name: "release",
      about: "Its number. Default: the one before.",
      isOptional: true,
      form: numberForm,
    },
  ],
  options: {
    "no-wait": { value: null, about: "Do not wait until it takes the calls." },
    timeout: {
      value: "<time>",
      about: `How long to wait, such as 30s or 10m. Default: ${waitDefault}.`,
    },
  },
  async change(at) {
    const waitMs = secondsOf(at.given.text("timeout") ?? waitDefault, "--timeout") * 1000;
    const named = at.given.operand("release");
    const body = named === "" ? {} : { release: numberOf(named) };
    const release = await answerOf(
      at.api.POST(`${route}/rollback`, { params: { path: at.path }, body }),
    );
    return at.given.has("no-wait") ? release : await whenItTakesCalls(at, release.number, waitMs);
  },
  said: ({ number, commit, currentPercent }, { path }) => [
    `Release v${number} of ${path.app_id} is live again${takingText(currentPercent)}`,
    // Without a commit it came from an upload, and no push deploys it.
    ...(commit === null
      ? []
      : [
          `Pushes are not deployed for now. To resume that: slipway apps resume-deploys ${path.app_id}`,
        ]),
  ],
});

function takingText(percent: number | null): string {
  if (percent === null)
    return ". No replica of the app takes calls now: the next call goes to this release.";
  if (percent === 100) return " and takes all calls.";
  return `, but takes ${percent} % of the calls until its replicas are ready.`;
}

/**
 * The release, once it takes all calls, or none of the app's replicas takes any. Throws `Refused`
 * when that takes too long.
 */
async function whenItTakesCalls(at: At, number: number, waitMs: number) {
  const endMs = performance.now() + waitMs;
  let lastReason = "";
  for (let pauseMs = lookMs.first; ; pauseMs = Math.min(pauseMs * lookMs.factor, lookMs.max)) {
    const path = { ...at.path, release: String(number) };
    const release = await answerOf(at.api.GET(`${route}/releases/{release}`, { params: { path } }));
    const { state, currentPercent } = release;
    if (state !== "live")
      throw new Refused(`Release v${number} was made live, but another one has taken its place.`);
    if (currentPercent === null || currentPercent === 100) return release;
    const waiting = await waitingText(at, number);
    if (performance.now() + pauseMs > endMs) {
      throw new Refused(`${waiting} This has not changed in time; the platform goes on trying.`);
    }
    if (waiting !== lastReason) at.machine.tell(waiting);
    lastReason = waiting;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

/** What takes the calls until then, and what is in the way. */
async function waitingText({ api, path }: At, number: number): Promise<string> {
  const [{ items }, { waitReason }] = await Promise.all([
    answerOf(api.GET(`${route}/releases`, { params: { path, query: { pageSize: releasesMax } } })),
    answerOf(api.GET(route, { params: { path } })),
  ]);
  const others = items.filter((one) => one.number !== number && (one.currentPercent ?? 0) > 0);
  const serving = others.map((one) => `v${one.number}`).join(", ");
  const who = serving === "" ? "Another release still takes" : `${serving} still takes`;
  const why = waitReason === null ? "" : ` ${plain(waitReason)}`;
  return `${who} calls, until replicas of v${number} are ready.${why}`;
}

/** The maximum number of releases in one page of the API. */
const releasesMax = 200;
