// What the parts of the page of webhooks share: its filters, and asking again.
import { queryClient } from "#queries.ts";

/** What the address of the page says. */
export type WebhookFilter = {
  readonly state?: string;
  readonly endpoint?: string;
  readonly run?: string;
  /** The token of the wanted page of deliveries. */
  readonly page?: string;
  /** The page of the endpoints. */
  readonly endpoints?: string;
  /** The open one. */
  readonly delivery?: string;
};

/**
 * Asks for what is shown of webhooks again, but for the secrets: each reading of them is recorded.
 */
export async function webhooksChanged(): Promise<void> {
  await queryClient.invalidateQueries({ queryKey: ["webhooks"] });
}
