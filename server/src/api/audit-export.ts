// Exports an audit log as a stream at the client's pace, and disconnects clients that are too slow.
// A failed export ends without the last chunk of the chunked body, so that no client takes an
// incomplete export for a complete one.
import { pipeline } from "node:stream/promises";
import type { ExportFormat } from "#audit/export/audit-export.ts";
import type { AuditOutcome } from "#audit/audit-store.ts";
import { Fault } from "#lib/fault.ts";
import { Gate, type Leave } from "#lib/gate.ts";
import { timeOf } from "./audit-log.ts";
import { projectOf, type ApiCall, type Handlers } from "./call.ts";
import { takenOver } from "./event-stream.ts";
import type { HandlerParts } from "./parts.ts";
import { paced } from "./slow-clients.ts";

type Parts = Pick<HandlerParts, "auditExport" | "clock" | "log" | "stopping" | "ownerKeyOf">;

/** The media type of each format. */
const types: Readonly<Record<ExportFormat, string>> = {
  ndjson: "application/x-ndjson; charset=utf-8",
  csv: "text/csv; charset=utf-8; header=present",
};

/**
 * The maximum number of running exports, in all and for one owner. Each of them repeatedly takes a
 * database connection, and uses some megabytes of memory.
 */
const exportsMax = { all: 6, owner: 2 } as const;

/** Route handlers for exports of audit logs. */
export function auditExportHandlers(parts: Parts) {
  const gate = new Gate({ max: exportsMax.all, keyMax: exportsMax.owner, waitingMax: 0 });
  return {
    async exportAuditLog(call) {
      const projectId = projectOf(call);
      const format = call.query["format"] as ExportFormat;
      if (call.request.method === "HEAD") return answerHead(call, format);
      const leave = await enter(gate, await parts.ownerKeyOf(projectId));
      try {
        await answer(call, parts, format);
      } finally {
        leave();
      }
      return undefined;
    },
  } satisfies Handlers;
}

/** Answers a HEAD request. Nothing is exported, so nothing is recorded. */
function answerHead({ reply }: ApiCall, format: ExportFormat): undefined {
  void reply.header("content-type", types[format]).code(200).send();
  return undefined;
}

async function answer(call: ApiCall, parts: Parts, format: ExportFormat): Promise<void> {
  const { query, by, request, reply } = call;
  const projectId = projectOf(call);
  // The contract has validated the syntax and choices of the other values.
  const exported = await parts.auditExport.begin(
    {
      projectId,
      format,
      from: timeOf(call, "from"),
      to: timeOf(call, "to"),
      action: query["action"] as string | null,
      actorId: query["actor"] as string | null,
      outcome: query["outcome"] as AuditOutcome | null,
    },
    by,
  );
  // The first part is read before the head is sent, so that an early failure is answered with its
  // status and message.
  const firstPart = await exported.next();
  const day = new Date(parts.clock.now()).toISOString().slice(0, 10);
  void reply.header("content-type", types[format]);
  void reply.header(
    "content-disposition",
    `attachment; filename="audit-log-${projectId}-${day}.${format}"`,
  );
  void reply.header("cache-control", "no-store");
  const response = takenOver(reply);
  response.writeHead(200);
  async function* authorizedParts(): AsyncGenerator<string> {
    for (let part = firstPart; part.done !== true; part = await exported.next()) {
      yield part.value;
      // An export may take minutes. If the caller loses the permission meanwhile, this throws.
      await call.admit();
    }
  }
  try {
    await pipeline(paced(authorizedParts(), { response, clock: parts.clock }), response, {
      signal: parts.stopping,
    });
  } catch (error) {
    const isClientGone = (error as NodeJS.ErrnoException).code === "ERR_STREAM_PREMATURE_CLOSE";
    if (!isClientGone && !parts.stopping.aborted && !(error instanceof Fault))
      parts.log.error({ err: error, requestId: request.id }, "an export of the audit log broke");
  } finally {
    await exported.return(undefined);
  }
}

/** Throws `Fault("rate_limited")` at once when too many exports are running. */
async function enter(gate: Gate, ownerKey: string): Promise<Leave> {
  const leave = await gate.enter({ key: ownerKey });
  if (leave !== null) return leave;
  const isOwnerAtLimit = gate.countOf(ownerKey) >= exportsMax.owner;
  const running = isOwnerAtLimit
    ? `${exportsMax.owner} exports of the project's owner`
    : `${exportsMax.all} exports`;
  const message = `${running} are already running; try again when one has ended.`;
  // Nobody knows when an export ends, so the number of seconds is a guess.
  throw new Fault("rate_limited", message, { retryAfterSeconds: 10 });
}
