// The hook address of an app, the push events that git hosts send there, and their list.
import type { FastifyRequest } from "fastify";
import type { z } from "zod";
import type { gitDelivery, gitHook } from "@slipway/contract/git-routes.ts";
import { must } from "#lib/assert.ts";
import { Fault } from "#lib/fault.ts";
import { Gate } from "#lib/gate.ts";
import type { GitDelivery } from "#pushes/git-hooks.ts";
import type { HookRow } from "#pushes/push-store.ts";
import { pageWanted, partOf, pathPart, refOf, showPage, type ApiCall, type Handler, type Handlers } from "./call.ts";
import { gitHookUrl, type Urls } from "./urls.ts";
import type { HandlerParts } from "./parts.ts";

/** Events in memory at the same time, and how many more wait how long; an event has up to 25 MB. */
const eventsMax = 4;
const waitingMax = 64;
const waitMs = 5_000;

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

/** Checks the address and takes a slot before the body is read. */
function receiver({ gitHooks, clock }: HandlerParts): Handler {
  const gate = new Gate({ max: eventsMax, waitingMax });
  const hooks = new WeakMap<FastifyRequest, HookRow>();
  const receive = async ({ request }: ApiCall): Promise<object> => {
    const hook = must(hooks.get(request), "the hook was admitted");
    const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
    const { headers, clientAddress: client } = request;
    const { id, verdict, reason } = await gitHooks.receive(hook, { headers, body, client });
    return { id, verdict, reason };
  };
  return Object.assign(receive, {
    beforeBody: (async (request, reply) => {
      const address = pathPart(request, "hook_address") ?? "";
      hooks.set(request, await gitHooks.admit(address, request.clientAddress));
      const leave = await gate.enter({ deadline: { waitMs, clock } });
      if (leave === null) {
        throw new Fault("unavailable", "Too many push events are arriving; send it again.", { retryAfterSeconds: 5 });
      }
      reply.raw.once("close", leave);
      if (reply.raw.closed) leave();
    }) satisfies Handler["beforeBody"],
  });
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
    ...{ id: row.id, host: row.host, event: row.event, ref: row.ref },
    ...{ commit: row.commit_sha, commitMessage: row.message, commitAuthor: row.author },
    ...{ verdict: row.verdict, reason: row.reason, buildId: row.build_id, replayOf: row.replay_of },
    receivedAt: row.received_at.toISOString(),
    decidedAt: row.decided_at?.toISOString() ?? null,
    commitStatus: row.reported,
    commitStatusFailure: row.report_failure,
  };
}
