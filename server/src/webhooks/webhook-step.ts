// The durable steps of a delivery, for tests that end the process after each.

/** Every step that another process sees once it is done; `sent` is what a receiver sees. */
export const webhookSteps = ["added", "claimed", "sent", "written", "paused", "resumed", "replayed"] as const;

/** Named right after the step. */
export type WebhookStep = (typeof webhookSteps)[number];
