// The steps of deliveries and endpoints, for tests that kill the process after each.

/** Steps whose effect other processes can see; `sent` is visible to the receiver. */
export const webhookSteps = [
  "added",
  "claimed",
  "sent",
  "written",
  "paused",
  "resumed",
  "replayed",
] as const;

/** A step of a delivery or an endpoint, reported right after it. */
export type WebhookStep = (typeof webhookSteps)[number];
