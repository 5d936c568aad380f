// The hook address of an app, the push events that git hosts send there, and the list of these
// events.
import type { FastifyReply, FastifyRequest } from "fastify";
import type { z } from "zod";
import type { gitDelivery, gitHook } from "@slipway/contract/git-routes.ts";
import { must } from "#lib/assert.ts";
import { projectIdOf } from "#lib/ids.ts";
import type { GitDelivery } from "#pushes/git-hooks.ts";
import type { HookRow } from "#pushes/push-store.ts";
import {
  pageWanted,
  partOf,
  pathPart,
  refOf,
  showPage,
  type ApiCall,
  type Handler,
  type Handlers,
} from "./call.ts";
import { gitHookUrl, type Urls } from "./urls.ts";
import { OwnerGate } from "./owner-gate.ts";
import type { HandlerParts } from "./parts.ts";

/** How many large events, of up to 25 MB each, may be in memory at once, and how many may wait. */
const largeEventBounds = { max: 4, ownerMax: 1, ownerWaitingMax: 16, what: "large push events" };
/** How long a large event may wait for a slot. */
const waitMs = 5_000;
/**
 * Events up to this size need no slot, like other JSON bodies of the API. So the sender of a small
 * event holds up nobody, however slow it is.
 */
const largeBytesMin = 1_048_576;
/** The time in which a large event must arrive completely; git hosts have fast connections. */
const arrivalMs = 30_000;

/** Route handlers for pushes. */
export function gitHookHandlers(parts: HandlerParts) {
  const { gitHooks, urls } = parts;
  return {
    async makeGitHook(call) {
      const { hook, secret } = await gitHooks.make(refOf(call), call.by);
      return { ...showHook(hook, urls()), secret: secret.reveal() };
    },
    async getGitHook(call) {
      return showHook(await gitHooks.get(refOf(call)), urls());
    },
    async listGitDeliveries(call) {
      return showPage(await gitHooks.list(refOf(call), pageWanted(call)), showDelivery);
    },
    async replayGitDelivery(call) {
      const id = partOf(call, "git_delivery_id");
      return showDelivery(await gitHooks.replay(refOf(call), id, call.by));
    },
    receiveGitPush: receiver(parts),
  } satisfies Handlers;
}

/** Handles push events. Before the body is read, checks the address and takes a slot if needed. */
function receiver(parts: HandlerParts): Handler {
  const { gitHooks, clock } = parts;
  const gate = new OwnerGate(parts, largeEventBounds);
  const hooks = new WeakMap<FastifyRequest, HookRow>();
  const receive = async ({ request }: ApiCall): Promise<object> => {
    const hook = must(hooks.get(request), "the hook was admitted");
    // A request without a body counts as one with an empty body.
    const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
    const { headers, clientAddress: client } = request;
    const { id, verdict, reason } = await gitHooks.receive(hook, { headers, body, client });
    return { id, verdict, reason };
  };
  const beforeBody: Handler["beforeBody"] = async (request, reply) => {
    const address = pathPart(request, "hook_address") ?? "";
    const hook = await gitHooks.admit(address, request.clientAddress);
    hooks.set(request, hook);
    if (isSmall(request)) return;
    const leave = await gate.enter({
      projectId: projectIdOf(hook.app_id),
      deadline: { waitMs, clock },
    });
    const cancelLimit = clock.after(arrivalMs, () => {
      if (!request.raw.complete) refuseSlow(reply, request.raw);
    });
    const end = (): void => {
      cancelLimit();
      leave();
    };
    reply.raw.once("close", end);
    // The connection may have closed while the event waited for its slot.
    if (reply.raw.closed) end();
  };
  return Object.assign(receive, { beforeBody });
}

/** Whether the request says that its body is small. A body that is sent in chunks has no length. */
function isSmall({ headers }: FastifyRequest): boolean {
  return (
    headers["transfer-encoding"] === undefined &&
    Number(headers["content-length"] ?? 0) <= largeBytesMin
  );
}

/** Answers at once, and then closes the connection, since the rest of the event may never come. */
function refuseSlow(reply: FastifyReply, request: FastifyRequest["raw"]): void {
  reply.hijack();
  const message = `A push event of more than ${largeBytesMin} bytes must arrive within ${arrivalMs / 1000} s.`;
  const body = JSON.stringify({ message });
  const { raw } = reply;
  raw.writeHead(408, { "content-type": "application/json; charset=utf-8", connection: "close" });
  raw.end(body, () => request.destroy());
}

function showHook(hook: HookRow, urls: Urls): z.infer<typeof gitHook> {
  return {
    url: gitHookUrl(urls, hook.address),
    createdAt: hook.created_at.toISOString(),
    rotatedAt: hook.rotated_at?.toISOString() ?? null,
    lastDeliveryAt: hook.received_at?.toISOString() ?? null,
  };
}

function showDelivery(row: GitDelivery): z.infer<typeof gitDelivery> {
  return {
    id: row.id,
    host: row.host,
    event: row.event,
    ref: row.ref,
    commit: row.commit_sha,
    commitMessage: row.message,
    commitAuthor: row.author,
    verdict: row.verdict,
    reason: row.reason,
    buildId: row.build_id,
    replayOf: row.replay_of,
    receivedAt: row.received_at.toISOString(),
    decidedAt: row.decided_at?.toISOString() ?? null,
    commitStatus: row.reported,
    commitStatusFailure: row.report_failure,
  };
}
