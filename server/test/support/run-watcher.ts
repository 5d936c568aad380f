// Implements the proxy's watcher of runs for tests: lets calls start as the test says, and records
// all callbacks.
import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import type { TestContext } from "node:test";
import { newRunId } from "#lib/ids.ts";
import type { RunEnding, RunHandle, RunRequest, RunWatcher } from "#proxy/run-call.ts";
import type { ReadyReplica } from "#scheduler/replica-view.ts";
import { httpReplica, type ProxyBed } from "./proxy-bed.ts";
import { until } from "./until.ts";

/** One run's call, as the watcher sees it. */
export class WatchedRun implements RunWatcher {
  readonly request: RunRequest;
  /** The replicas on which it was about to start, in order. */
  readonly starts: ReadyReplica[] = [];
  readonly endings: RunEnding[] = [];
  readonly handle: RunHandle;
  mayGrow: RunWatcher["mayGrow"] = () => null;
  readonly #mayStart: (replica: ReadyReplica) => Promise<boolean>;

  constructor(
    bed: ProxyBed,
    request: Partial<RunRequest> = {},
    mayStart: (replica: ReadyReplica) => Promise<boolean> = () => Promise.resolve(true),
  ) {
    this.#mayStart = mayStart;
    this.request = {
      runId: newRunId(),
      appId: bed.appId,
      method: "POST",
      path: "/run",
      lines: "Host: test\r\n",
      body: Buffer.from("{}"),
      answerBytesMax: 1_000_000,
      ...request,
    };
    this.handle = bed.proxy.run(this.request, this);
  }

  mayStart(replica: ReadyReplica): Promise<boolean> {
    this.starts.push(replica);
    return this.#mayStart(replica);
  }

  onEnd(ending: RunEnding): void {
    this.endings.push(ending);
  }

  /** Resolves with its ending. */
  async ended(): Promise<RunEnding> {
    return await until("the run's call ends", () => this.endings[0]);
  }
}

/**
 * An ending as short text: status and body of an answer, or the code of the fault and whether
 * anything was sent.
 */
export function inShort(ending: RunEnding): string {
  if (ending.kind === "withdrawn") return "withdrawn";
  if (ending.kind === "failed")
    return `${ending.fault.code} ${ending.wasSent ? "sent" : "not sent"}`;
  return `${ending.status} ${ending.body === null ? `${ending.bodyBytes} bytes` : ending.body.toString("latin1")}`;
}

/** Checks that it has ended exactly once and holds no slot. */
export async function assertEnded(bed: ProxyBed, run: WatchedRun, expected: string): Promise<void> {
  assert.equal(inShort(await run.ended()), expected);
  await until("no place is taken", () => {
    const { running, waiting } = bed.proxy.apps.demandOf(bed.appId);
    return running === 0 && waiting === 0;
  });
  run.handle.withdraw();
  assert.equal(run.endings.length, 1, "it ends once");
}

/** A replica that answers when the test says so. */
export async function waitingReplica(
  t: TestContext,
): Promise<{ port: number; answers: ServerResponse[] }> {
  const answers: ServerResponse[] = [];
  const port = await httpReplica(t, (_request, response) => answers.push(response));
  return { port, answers };
}
