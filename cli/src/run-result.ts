// Shared by `slipway call --async --wait` and `slipway runs`: waits for the end of a run, and
// prints its result.
import { answerOf } from "@slipway/client/client.ts";
import { projectPath } from "./connection.ts";
import { secondsOf } from "./life.ts";
import { Refused } from "./refused.ts";
import type { At } from "./resource.ts";
import { printAnswer } from "./shown-answer.ts";

const route = "/v2/projects/{project_id}/apps/{app_id}/runs/{run_id}" as const;
const waitDefault = "1h";
/** The first looks come quickly, for short runs; later ones are rarer. */
const lookMs = { first: 200, factor: 1.5, max: 5000 };

/** The run, as the platform knows it now. */
export async function runOf({ api, path }: At, runId: string) {
  return (await answerOf(api.GET(route, { params: { path: { ...path, run_id: runId } } }))).item;
}

/** The run after its end. Throws `Refused` when it has not ended within `--timeout`. */
export async function waitForRun(at: At, runId: string) {
  const timeout = at.given.text("timeout") ?? waitDefault;
  const endMs = performance.now() + secondsOf(timeout, "--timeout") * 1000;
  for (let waitMs = lookMs.first; ; waitMs = Math.min(waitMs * lookMs.factor, lookMs.max)) {
    const run = await runOf(at, runId);
    if (run.endedAt !== null) return run;
    if (performance.now() + waitMs > endMs) {
      const later = `slipway runs result ${at.path.app_id} ${runId}`;
      throw new Refused(
        `Run ${runId} has not ended within ${timeout}; it goes on. To see its result later: ${later}`,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
}

/**
 * Prints the app's answer to the run; returns the app's status. Throws `Refused` if there is none.
 */
export async function printResult(
  { given, machine, client, path }: At,
  runId: string,
): Promise<number> {
  const rest = `/apps/${encodeURIComponent(path.app_id)}/runs/${encodeURIComponent(runId)}/result`;
  const { headers, bytes } = await client.download(projectPath(path.project_id, rest));
  const contentType = headers.get("content-type") ?? "";
  await printAnswer(machine, { contentType, body: bytes }, given.has("json"));
  return Number(headers.get("slipway-status-code") ?? 200);
}
