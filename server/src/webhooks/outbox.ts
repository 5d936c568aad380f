// Where deliveries come in: rows in the transaction of whoever ends a run, and calls whose answers are posted behind them.
import type { Tx } from "#store/database.ts";
import type { HeldDelivery, NewDelivery } from "./delivery.ts";

/** What became of one that was added: already this platform's to send, or waiting for whoever has room. */
export type AddedDelivery = { readonly held: HeldDelivery | null };

/** Takes deliveries in. */
export class Outbox {
  /** Within the transaction that ends the runs; a constant number of statements whatever the number of deliveries. */
  add(_tx: Tx, _deliveries: readonly NewDelivery[]): Promise<readonly AddedDelivery[]> {
    return Promise.reject(new Error("not there yet"));
  }

  /** After the commit: sends what has room at once, without reading it again. */
  committed(_added: readonly AddedDelivery[]): void {}

  /** For plain calls: its own transaction, in batches, behind the caller; bounded. */
  post(_delivery: NewDelivery): void {}
}
