// What becomes of one attempt of a run, with a proxy and a settlement that only answer: which
// replicas it may be sent to.
import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import type { AppId, ProjectId, ReleaseId, ReplicaId, RunId } from "#lib/ids.ts";
import { AnswerDecoder } from "#proxy/answer-decoder.ts";
import type { RunEnding, RunWatcher } from "#proxy/run-call.ts";
import { AnswerMemory } from "./answer-memory.ts";
import { Execution, type ExecutionParts } from "./execution.ts";

const own = "own" as ReleaseId;

/**
 * One attempt of a run for a release, on a replica of another one or its own: what was written of
 * it.
 */
async function attempt(onlyReleaseId: ReleaseId | null, releaseId: ReleaseId): Promise<unknown[]> {
  const written: unknown[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const settlement = {
    stopping: new AbortController().signal,
    start: () => Promise.resolve(written.push("start") > 0),
    end: (_work: unknown, ending: RunEnding) =>
      Promise.resolve(written.push(ending.kind === "failed" ? ending.fault.code : ending.kind) > 0),
  };
  const replica = {
    replicaId: "r" as ReplicaId,
    appId: "a" as AppId,
    releaseId,
    address: { path: "/x" },
    concurrency: 1,
  };
  const run = (_request: unknown, watcher: RunWatcher): { withdraw(): void } => {
    void watcher.mayStart(replica).then((mayStart) => {
      const answer = { status: 200, contentType: null, body: Buffer.alloc(0), bodyBytes: 0 };
      watcher.onEnd(mayStart ? { kind: "answered", ...answer } : { kind: "withdrawn" });
    });
    return { withdraw: () => undefined };
  };
  const parts = {
    clock: systemClock,
    log: silentLog,
    proxy: { run },
    calledApps: { hold: () => () => undefined },
    settlement,
    heldRuns: {},
    keepsAnswers: () => false,
    callMsMax: () => 1_000,
    answerBytesMax: 1_000,
    startMsMax: 1_000,
    answerMemory: new AnswerMemory({
      answerBytesMax: 1_000,
      ownerKeyOf: (projectId) => Promise.resolve(projectId),
    }),
    hasReplicaAlone: () => false,
    decoder: new AnswerDecoder(1_000, (projectId) => Promise.resolve(projectId)),
    scheduler: {
      endStuck: () => undefined,
      brokeOff: () => Promise.resolve(null),
      isReclaimed: () => false,
    },
    onLetGo: resolve,
  } as unknown as ExecutionParts;
  const named = {
    runId: "1" as RunId,
    projectId: "p" as ProjectId,
    appId: "a" as AppId,
    method: "POST",
    target: "/x",
  };
  const counts = { epoch: 1, attempt: 0, starts: 0, retriesMax: 0, waitsSinceMs: 0 };
  const none = {
    lines: "",
    body: Buffer.alloc(0),
    webhookEndpoint: null,
    webhookSecretSealed: null,
  };
  new Execution({ ...named, ...counts, ...none, onlyReleaseId }, parts).begin();
  await promise;
  return written;
}

test("a run that waited for its files is never sent to a replica with others: it is tried again", async () => {
  assert.deepEqual(await attempt(own, "other" as ReleaseId), ["unavailable"]);
  assert.deepEqual(await attempt(own, own), ["start", "answered"]);
  assert.deepEqual(await attempt(null, "other" as ReleaseId), ["start", "answered"]);
});
