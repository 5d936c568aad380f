// Route handlers that list, read and cancel runs, send their results, and redrive or purge dead
// runs.
import type { ServerResponse } from "node:http";
import type { z } from "zod";
import type * as answers from "@slipway/contract/answers.ts";
import { isOlderClient } from "@slipway/contract/older-clients.ts";
import type { RunState } from "@slipway/contract/words.ts";
import type { Clock } from "#lib/clock.ts";
import type { DeadChoice, DeadCount } from "#runs/dead-runs.ts";
import type { RunId } from "#lib/ids.ts";
import type { RunAndCallPage, RunResult } from "#runs/run-list.ts";
import type { RunRow } from "#runs/run-list-store.ts";
import {
  appOf,
  pageWanted,
  projectOf,
  refOf,
  runOf,
  showPage,
  type ApiCall,
  type Handlers,
} from "./call.ts";
import { OwnerGate } from "./owner-gate.ts";
import { limitTaking } from "./slow-clients.ts";
import { showRun } from "./show-run.ts";
import type { HandlerParts } from "./parts.ts";

/** Limits of answers with results. A result may be large, and stays in memory until it is sent. */
const results = { max: 8, ownerMax: 4, ownerWaitingMax: 100, what: "results" };
/**
 * Limits of the lists of successful runs. They have no index: finding successful runs among a
 * million failed ones takes half a second.
 */
const successes = { max: 4, ownerMax: 2, ownerWaitingMax: 100, what: "lists of successful runs" };
/** Limits of redriving and purging: with many dead runs, each takes a connection for seconds. */
const sweeps = { max: 2, ownerMax: 1, ownerWaitingMax: 10, what: "dead runs" };

/** Route handlers for runs. */
export function runHandlers(parts: HandlerParts) {
  return { ...readHandlers(parts), ...actionHandlers(parts) };
}

function readHandlers(parts: HandlerParts) {
  const { runs, apps } = parts;
  const resultGate = new OwnerGate(parts, results);
  const successGate = new OwnerGate(parts, successes);
  return {
    async listRuns(call) {
      const appId = appOf(call);
      await apps.require(projectOf(call), appId);
      // The contract has validated the choices of the status, here and below.
      const status = call.query["status"] as RunState | null;
      const selection = {
        asyncOnly: call.query["asyncOnly"] === true,
        status,
        ...pageWanted(call),
      };
      const readPage = (): Promise<RunAndCallPage> => runs.list.page(appId, selection);
      const page =
        status === "success"
          ? await successGate.run(readPage, { projectId: projectOf(call) })
          : await readPage();
      const isOlder = isOlderClient(call.request.headers["x-cli-version"]);
      const shown = showPage(page, (row) => {
        const run = show(row, call, parts);
        // Older clients show only runs that have the field `isAsync`.
        return isOlder ? { ...run, isAsync: run.async } : run;
      });
      return { ...shown, callsLeftOut: page.callsLeftOut } satisfies z.infer<
        typeof answers.runAndCallPage
      >;
    },
    async getRun(call) {
      const { appId, runId } = runOf(call);
      return showOne(await runs.list.get(appId, runId), call, parts);
    },
    async getRunResult(call) {
      const { appId, runId } = runOf(call);
      const send = async (): Promise<void> => {
        const result = await runs.list.result(appId, runId);
        const { reply } = call;
        void reply.headers({
          ...untrusted,
          "slipway-status-code": String(result.statusCode),
          "slipway-run-id": runId,
        });
        void reply.headers(contentFieldsOf(result, runId));
        // `type()` would add a charset that the app did not set.
        void reply
          .header("content-type", contentTypeOf(result.contentType))
          .code(200)
          .send(result.body);
        await waitUntilSent(reply.raw, result.body.length, parts.clock);
      };
      await resultGate.run(send, { projectId: projectOf(call) });
      return undefined;
    },
    async listDeadRuns(call) {
      const appId = appOf(call);
      await apps.require(projectOf(call), appId);
      const status = call.query["status"] as "failure" | "timeout" | null;
      const page = await runs.list.deadPage(appId, { status, ...pageWanted(call) });
      return showPage(page, (row) => show(row, call, parts)) satisfies z.infer<
        typeof answers.runPage
      >;
    },
  } satisfies Handlers;
}

function actionHandlers(parts: HandlerParts) {
  const { runs, apps } = parts;
  const gate = new OwnerGate(parts, sweeps);
  const sweep = async (
    call: ApiCall,
    act: (choice: DeadChoice) => Promise<DeadCount>,
  ): Promise<DeadCount> => {
    const choice = choiceOf(call);
    await apps.require(choice.projectId, choice.appId);
    return await gate.run(() => act(choice), { projectId: choice.projectId });
  };
  return {
    async cancelRun(call) {
      return showOne(await runs.cancel(runOf(call), call.by), call, parts);
    },
    async redriveRun(call) {
      const runId = await runs.dead.redrive(runOf(call), call.by);
      return { runId } satisfies z.infer<typeof answers.redrivenRun>;
    },
    async redriveDeadRuns(call) {
      const { count, hasMore } = await sweep(call, (choice) =>
        runs.dead.redriveAll(choice, call.by),
      );
      return { redriven: count, hasMore } satisfies z.infer<typeof answers.redrivenRuns>;
    },
    async purgeDeadRuns(call) {
      const { count, hasMore } = await sweep(call, (choice) => runs.dead.purge(choice, call.by));
      return { purged: count, hasMore } satisfies z.infer<typeof answers.purgedRuns>;
    },
  } satisfies Handlers;
}

/**
 * Resolves when the answer has been sent, or the client is gone. Disconnects clients that are too
 * slow.
 */
async function waitUntilSent(response: ServerResponse, bytes: number, clock: Clock): Promise<void> {
  if (response.closed || response.destroyed) return;
  const cancel = limitTaking(response, bytes, clock);
  await new Promise((resolve) => response.once("close", resolve));
  cancel();
}

/**
 * The headers for bytes of an app. The platform's origin sends these bytes, so a browser must
 * neither render nor run them.
 */
const untrusted = {
  "content-security-policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
};

/** The app's other headers about the body. Whatever they say, browsers save the body as a file. */
function contentFieldsOf({ contentFields }: RunResult, runId: RunId): Record<string, string> {
  // A value with characters that a header cannot have, or with too many, is left out.
  const allowed = (name: keyof NonNullable<RunResult["contentFields"]>): string | undefined => {
    const value = contentFields?.[name];
    return value !== undefined && /^[\x20-\x7e]{1,1024}$/.test(value) ? value : undefined;
  };
  const encoding = allowed("content-encoding");
  const language = allowed("content-language");
  // What follows the first semicolon, such as the file's name, is kept, but not the type before it.
  const disposition = allowed("content-disposition") ?? "";
  const semicolon = disposition.indexOf(";");
  const file = semicolon === -1 ? `; filename="${runId}"` : disposition.slice(semicolon);
  return {
    ...(encoding === undefined ? {} : { "content-encoding": encoding }),
    ...(language === undefined ? {} : { "content-language": language }),
    "content-disposition": `attachment${file}`,
  };
}

/**
 * The content type that the app set, if it is allowed in a header and not too long; otherwise the
 * type of any bytes.
 */
function contentTypeOf(appType: string | null): string {
  const isAllowed = appType !== null && /^[\x21-\x7e][\x20-\x7e]{0,199}$/.test(appType);
  return isAllowed ? appType : "application/octet-stream";
}

/** The dead runs that a request is for. The contract has validated the values. */
function choiceOf(call: ApiCall): DeadChoice {
  const { query } = call;
  const status = query["status"] as "failure" | "timeout" | null;
  return { ...refOf(call), status, limit: query["limit"] as number | null };
}

function showOne(row: RunRow, call: ApiCall, parts: HandlerParts): z.infer<typeof answers.oneRun> {
  return { item: show(row, call, parts) };
}

function show(
  row: RunRow,
  call: ApiCall,
  { waitReason, clock }: HandlerParts,
): z.infer<typeof answers.run> {
  const reason = row.state === "queued" ? waitReason(row.app_id) : undefined;
  return showRun(row, { projectId: projectOf(call), waitReason: reason, nowMs: clock.now() });
}
