// Webhook routes: signing secrets, deliveries, endpoints, and the retry schedule of a project.
import * as answers from "./answers.ts";
import {
  deliveryQuery,
  endpointQuery,
  replayFields,
  scheduleFields,
  webhookSecretFields,
} from "./parameters.ts";
import { paths, type Route } from "./route.ts";

const { project } = paths;
const deliveries = `${project}/webhook-deliveries` as const;
const endpoints = `${project}/webhook-endpoints` as const;

/** By operation id; part of the table in `routes.ts`. */
export const webhookRoutes = {
  listWebhookSecrets: {
    method: "GET",
    path: `${project}/webhook-secrets`,
    about:
      "The secrets that sign the webhooks of a project and are valid now, newest first: one or two. Their values are shown only to callers with `webhooks.write`. Every project has one from the start.",
    access: "webhooks.read",
    audit: "webhook_secrets.read",
    status: 200,
    answer: answers.webhookSecretList,
  },
  createWebhookSecret: {
    method: "POST",
    path: `${project}/webhook-secrets`,
    about:
      "Creates a secret that signs the webhooks of a project from now on. The previous one stays valid for `overlapHours`; the body is optional.",
    access: "webhooks.write",
    audit: "webhook_secrets.create",
    body: { kind: "fields", fields: webhookSecretFields, required: [] },
    status: 201,
    answer: answers.newWebhookSecret,
  },
  deleteWebhookSecret: {
    method: "DELETE",
    path: `${project}/webhook-secrets/{secret_id}`,
    about: "Deletes a secret: it stops signing immediately. The last one is replaced by a new one.",
    access: "webhooks.write",
    audit: "webhook_secrets.delete",
    status: 200,
    answer: answers.messageAnswer,
  },
  listWebhookDeliveries: {
    method: "GET",
    path: deliveries,
    about: "Deliveries to webhooks of a project, newest first.",
    access: "webhooks.read",
    audit: null,
    query: deliveryQuery,
    status: 200,
    answer: answers.webhookDeliveryPage,
  },
  getWebhookDelivery: {
    method: "GET",
    path: `${deliveries}/{delivery_id}`,
    about: "One delivery with its attempts.",
    access: "webhooks.read",
    audit: null,
    status: 200,
    answer: answers.oneWebhookDelivery,
  },
  replayWebhookDelivery: {
    method: "POST",
    path: `${deliveries}/{delivery_id}/replay`,
    about: "Replays a delivery that has ended, under the same webhook-id.",
    access: "webhooks.write",
    audit: "webhook_deliveries.replay",
    status: 200,
    answer: answers.replayedWebhookDelivery,
  },
  replayWebhookDeliveries: {
    method: "POST",
    path: `${deliveries}/replay`,
    about:
      "Replays deliveries that have ended, oldest first; by default those that failed. `hasMore`: there are more than one request replays.",
    access: "webhooks.write",
    audit: "webhook_deliveries.replay",
    body: { kind: "fields", fields: replayFields, required: ["from", "to"] },
    status: 200,
    answer: answers.replayedWebhookDeliveries,
  },
  listWebhookEndpoints: {
    method: "GET",
    path: endpoints,
    about: "The URLs that deliveries of a project go to, newest first, and their health.",
    access: "webhooks.read",
    audit: null,
    query: endpointQuery,
    status: 200,
    answer: answers.webhookEndpointPage,
  },
  pauseWebhookEndpoint: {
    method: "POST",
    path: `${endpoints}/{endpoint_id}/pause`,
    about: "Pauses deliveries to an endpoint until it is resumed.",
    access: "webhooks.write",
    audit: "webhook_endpoints.pause",
    status: 200,
    answer: answers.oneWebhookEndpoint,
  },
  resumeWebhookEndpoint: {
    method: "POST",
    path: `${endpoints}/{endpoint_id}/resume`,
    about: "Resumes deliveries to a paused endpoint.",
    access: "webhooks.write",
    audit: "webhook_endpoints.resume",
    status: 200,
    answer: answers.oneWebhookEndpoint,
  },
  getWebhookSchedule: {
    method: "GET",
    path: `${project}/webhook-schedule`,
    about: "The retry schedule for failed deliveries of a project.",
    access: "webhooks.read",
    audit: null,
    status: 200,
    answer: answers.webhookSchedule,
  },
  setWebhookSchedule: {
    method: "PUT",
    path: `${project}/webhook-schedule`,
    about: "Sets the retry schedule for failed deliveries of a project, from the next attempt on.",
    access: "webhooks.write",
    audit: "webhook_schedule.update",
    body: { kind: "fields", fields: scheduleFields, required: ["schedule"] },
    status: 200,
    answer: answers.webhookSchedule,
  },
} as const satisfies Record<string, Route>;
