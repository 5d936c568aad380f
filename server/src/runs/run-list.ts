// Reads runs for the API: pages of an app's runs and dead runs, one run, and the kept answer of a
// run.
import type { RunState } from "@slipway/contract/words.ts";
import { Fault } from "#lib/fault.ts";
import { shownAppId, type AppId, type RunId } from "#lib/ids.ts";
import { pageOf, PageTokens, type Page } from "#lib/page-token.ts";
import type { ContentFields } from "#proxy/answer-collector.ts";
import type { Foundation } from "#store/foundation.ts";
import { countLeftOut } from "./call-record-store.ts";
import {
  listDead,
  listRuns,
  readResult,
  readRun,
  type KeptResult,
  type RunCursor,
  type RunRow,
} from "./run-list-store.ts";
import { isFinal } from "./run-states.ts";

/** `callsLeftOut`: plain calls in the page's time range that were not recorded. */
export type RunAndCallPage = Page<RunRow> & { readonly callsLeftOut: number };

/** The answer of a run, as the app sent it, but without content codings that could be undone. */
export type RunResult = Pick<KeptResult, "statusCode" | "contentType"> & {
  readonly contentFields: ContentFields | null;
  readonly body: Buffer;
};

export type RunListOptions = Pick<Foundation, "db" | "clock"> & {
  /** Configuration: how long results are kept, and their maximum size. */
  readonly resultRetentionDays: number;
  readonly resultBytesMax: number;
};

type PageFilter<Status> = {
  readonly status: Status | null;
  readonly pageSize: number;
  readonly nextToken: string | null;
};

const tokenForm = { cursor: { atMicros: "number", id: "uuid" }, next: "nextToken" } as const;
const runTokens = new PageTokens<RunCursor>({ list: "runs", ...tokenForm });
const deadTokens = new PageTokens<RunCursor>({ list: "dead", ...tokenForm });

const dayMs = 86_400_000;

/** Reads runs and changes nothing. */
export class RunList {
  readonly #options: RunListOptions;

  constructor(options: RunListOptions) {
    this.#options = options;
  }

  /**
   * Runs of an app, async ones and plain calls, newest first. Throws `Fault("invalid")` for a token
   * of a different query.
   */
  async page(
    appId: AppId,
    filter: PageFilter<RunState> & { readonly asyncOnly: boolean },
  ): Promise<RunAndCallPage> {
    const { asyncOnly, status, pageSize, nextToken } = filter;
    const query = [appId, asyncOnly, status];
    const from = runTokens.read(query, nextToken);
    const rows = await listRuns(this.#options.db, appId, {
      asyncOnly,
      status,
      from,
      // The additional row tells that there is a next page.
      limit: pageSize + 1,
    });
    const page = pageOf(rows, pageSize, (row) => runTokens.make(query, cursorOf(row)));
    if (asyncOnly) return { ...page, callsLeftOut: 0 };
    // The time range of the last page has no beginning.
    const last = page.nextToken === null ? undefined : page.items.at(-1);
    const time = { afterMicros: last?.at_micros ?? null, untilMicros: from?.atMicros ?? null };
    return { ...page, callsLeftOut: await countLeftOut(this.#options.db, appId, time) };
  }

  /**
   * Failed runs of an app that can be redriven, newest first. Throws `Fault("invalid")` for a token
   * of a different query.
   */
  async deadPage(appId: AppId, filter: PageFilter<"failure" | "timeout">): Promise<Page<RunRow>> {
    const { status, pageSize, nextToken } = filter;
    // The query has the form of that in `page`, with `asyncOnly` true: all dead runs are async.
    const query = [appId, true, status];
    const from = deadTokens.read(query, nextToken);
    const rows = await listDead(this.#options.db, appId, { status, from, limit: pageSize + 1 });
    return pageOf(rows, pageSize, (row) => deadTokens.make(query, cursorOf(row)));
  }

  /** One run, async or plain. Throws `Fault("not_found")`. */
  async get(appId: AppId, runId: RunId): Promise<RunRow> {
    const row = await readRun(this.#options.db, appId, runId);
    if (row === undefined) throw noSuchRun(appId, runId);
    return row;
  }

  /**
   * The app's answer. Throws `Fault("not_found")` with the reason when there is none,
   * `Fault("conflict")` before the end.
   */
  async result(appId: AppId, runId: RunId): Promise<RunResult> {
    const run = await this.get(appId, runId);
    if (!isFinal(run.state)) {
      throw new Fault(
        "conflict",
        `The run has no result yet: it is ${run.state}. Try again when it has ended.`,
      );
    }
    const answer = run.is_async ? await readResult(this.#options.db, runId) : undefined;
    if (answer === undefined) throw new Fault("not_found", this.#whyNoResult(run));
    if (answer.body !== null) {
      const { statusCode, contentType, contentFields = null, body } = answer;
      return { statusCode, contentType, contentFields, body };
    }
    const { resultBytesMax } = this.#options;
    const length = `${answer.bodyBytes} bytes long, and answers of at most ${resultBytesMax} bytes are kept`;
    throw new Fault(
      "not_found",
      `The answer of the run was not kept: it was ${length} (SLIPWAY_RESULT_LIMIT_MB).`,
    );
  }

  #whyNoResult(run: RunRow): string {
    if (!run.is_async)
      return "The run was a plain call, whose answer is not kept: its caller received it.";
    if (run.state === "cancelled") return "The run was cancelled, so there is no result.";
    const { clock, resultRetentionDays: days } = this.#options;
    // A run in a final state has this time.
    const endedAtMs = run.ended_at?.getTime() ?? 0;
    const isTooOld = clock.now() - endedAtMs > days * dayMs;
    // A successful run always had a result.
    if (run.state === "success" || isTooOld) {
      return `The result of the run is no longer kept: results are deleted ${days} days after the end of a run.`;
    }
    return `The app gave no answer. ${run.reason ?? ""}`.trimEnd();
  }
}

/** The same answer for a missing run and for another app's run. */
export function noSuchRun(appId: AppId, runId: RunId): Fault {
  return new Fault("not_found", `The app ${shownAppId(appId)} has no run ${runId}.`);
}

function cursorOf(row: RunRow): RunCursor {
  return { atMicros: row.at_micros, id: row.id };
}
