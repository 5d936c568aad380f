// Limits for how many new names of each project certificates are ordered in a week, so that no
// project can use up what an authority allows the whole platform. Each first order counts, however
// it ends, and also when nobody needs its name any more. Pure.
import { getOrInsert } from "#lib/get-or-insert.ts";

/** The time in which the orders of a project are counted. */
export const countedMs = 7 * 86_400_000;

/** A name's first order; null: there was none yet, or the name is the platform's own. */
type FirstOrder = { readonly project_id: string | null; readonly first_order_at: Date | null };

/** The first orders of all projects. */
export class NewNames {
  readonly #max: number;
  readonly #nowMs: number;
  /** When the counted orders of a project were, the oldest first. */
  readonly #orders = new Map<string, number[]>();

  constructor(
    rows: readonly FirstOrder[],
    limits: { readonly max: number; readonly nowMs: number },
  ) {
    this.#max = limits.max;
    this.#nowMs = limits.nowMs;
    const counted = rows.flatMap(({ project_id: project, first_order_at: at }) =>
      project === null || at === null || at.getTime() <= this.#nowMs - countedMs
        ? []
        : [{ project, atMs: at.getTime() }],
    );
    for (const { project, atMs } of counted.toSorted((one, other) => one.atMs - other.atMs))
      this.#ordersOf(project).push(atMs);
  }

  /** Counts one more new name of the project; too many: says when it may be ordered. */
  take(project: string): { readonly waitUntilMs: number } | null {
    const orders = this.#ordersOf(project);
    const oldestMs = orders.at(-this.#max);
    if (oldestMs !== undefined && orders.length >= this.#max)
      return { waitUntilMs: oldestMs + countedMs };
    orders.push(this.#nowMs);
    return null;
  }

  #ordersOf(project: string): number[] {
    return getOrInsert(this.#orders, project, () => []);
  }
}
