// Webhooks of projects: signing secrets, deliveries and their attempts, endpoints, the schedule.
import type { z } from "zod";
import type * as answers from "@slipway/contract/answers.ts";
import type { Sent } from "@slipway/contract/route.ts";
import type { DeliveryState } from "@slipway/contract/words.ts";
import { allows } from "#accounts/permissions.ts";
import type { DeliveryId, EndpointId, RunId } from "#lib/ids.ts";
import type {
  DeliveryItem,
  DeliveryQuery,
  EndpointItem,
  WebhookUseCases,
} from "#webhooks/use-cases.ts";
import type { WebhookSecret } from "#webhooks/secret-use-cases.ts";
import {
  bodyOf,
  pageWanted,
  partOf,
  projectOf,
  readTime,
  showPage,
  type ApiCall,
  type Handlers,
} from "./call.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for webhooks. */
export function webhookHandlers({ webhooks: useCases }: HandlerParts) {
  return {
    ...secretHandlers(useCases),
    ...deliveryHandlers(useCases),
    ...endpointHandlers(useCases),
    ...scheduleHandlers(useCases),
  } satisfies Handlers;
}

function secretHandlers(useCases: WebhookUseCases) {
  return {
    async listWebhookSecrets(call) {
      const { caller, by } = call;
      const projectId = projectOf(call);
      // A caller who may not change the secrets sees only that they exist.
      const isShown = caller !== null && allows(caller, "webhooks.write", projectId);
      const secrets = (await useCases.secrets.list(projectId, by)).map(showSecret);
      const answer: Sent<z.infer<typeof answers.webhookSecretList>[number]>[] = isShown
        ? secrets
        : secrets.map((item) => ({ ...item, secret: null }));
      return answer;
    },
    async createWebhookSecret(call) {
      const overlapHours = Number(bodyOf(call)["overlapHours"]);
      return showSecret(await useCases.secrets.create(projectOf(call), overlapHours, call.by));
    },
    async deleteWebhookSecret(call) {
      await useCases.secrets.delete(projectOf(call), storedIdOf(call, "secret_id"), call.by);
      return { message: "The secret was deleted; it no longer signs anything." };
    },
  } satisfies Handlers;
}

function deliveryHandlers(useCases: WebhookUseCases) {
  return {
    async listWebhookDeliveries(call) {
      const { query } = call;
      // The contract has validated the types and choices of the values.
      const wanted: DeliveryQuery = {
        ...pageWanted(call),
        state: (query["state"] as DeliveryState | null) ?? undefined,
        endpointId: endpointIn(query),
        runId: (query["runId"] as RunId | null) ?? undefined,
      };
      return showPage(await useCases.listDeliveries(projectOf(call), wanted), showDelivery);
    },
    async getWebhookDelivery(call) {
      const { delivery, attempts } = await useCases.readDelivery(projectOf(call), deliveryOf(call));
      return { item: showDelivery(delivery), attempts };
    },
    async replayWebhookDelivery(call) {
      return {
        item: showDelivery(await useCases.replay(projectOf(call), deliveryOf(call), call.by)),
      };
    },
    async replayWebhookDeliveries(call) {
      const body = bodyOf(call);
      const range = {
        from: readTime("from", body["from"]),
        to: readTime("to", body["to"]),
        state: body["state"] as "failed" | "delivered",
        endpointId: endpointIn(body),
      };
      return await useCases.replayRange(projectOf(call), range, call.by);
    },
  } satisfies Handlers;
}

function endpointHandlers(useCases: WebhookUseCases) {
  return {
    async listWebhookEndpoints(call) {
      return showPage(
        await useCases.listEndpoints(projectOf(call), pageWanted(call)),
        showEndpoint,
      );
    },
    async pauseWebhookEndpoint(call) {
      return {
        item: showEndpoint(
          await useCases.pauseEndpoint(projectOf(call), endpointOf(call), call.by),
        ),
      };
    },
    async resumeWebhookEndpoint(call) {
      return {
        item: showEndpoint(
          await useCases.resumeEndpoint(projectOf(call), endpointOf(call), call.by),
        ),
      };
    },
  } satisfies Handlers;
}

function scheduleHandlers(useCases: WebhookUseCases) {
  return {
    async getWebhookSchedule(call) {
      return { schedule: await useCases.readSchedule(projectOf(call)) };
    },
    async setWebhookSchedule(call) {
      const body = bodyOf(call);
      const schedule = body["schedule"] === "short" ? "short" : "standard";
      await useCases.setSchedule(projectOf(call), schedule, call.by);
      return { schedule };
    },
  } satisfies Handlers;
}

function deliveryOf(call: ApiCall): DeliveryId {
  return storedIdOf(call, "delivery_id") as DeliveryId;
}

function endpointOf(call: ApiCall): EndpointId {
  return storedIdOf(call, "endpoint_id") as EndpointId;
}

/** The endpoint in a query or a body, if one is named. */
function endpointIn(fields: Readonly<Record<string, unknown>>): EndpointId | undefined {
  const { endpointId } = fields;
  return typeof endpointId === "string" ? (endpointId.toLowerCase() as EndpointId) : undefined;
}

/**
 * The id in the path as it is stored, in lower case. Its form is not checked here: nothing is found
 * under an id of another form.
 */
function storedIdOf(call: ApiCall, name: string): string {
  return partOf(call, name).toLowerCase();
}

function showSecret({
  secret,
  ...shown
}: WebhookSecret): Sent<z.infer<typeof answers.newWebhookSecret>> {
  return { ...shown, secret: secret.reveal() };
}

// The use cases return these items in the form that the API sends.
const showDelivery = (item: DeliveryItem): Sent<z.infer<typeof answers.webhookDelivery>> => item;
const showEndpoint = (item: EndpointItem): Sent<z.infer<typeof answers.webhookEndpoint>> => item;
