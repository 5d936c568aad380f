// Samples by app, for a bounded number of apps: the memory of Prometheus grows with each set of
// labels that it ever saw.
import { projectIdOf, type AppId } from "#lib/ids.ts";
import type { Sample } from "./registry.ts";

/** The counters of one app. */
type Counted = { readonly appId: AppId };

/** How many apps have samples of their own; later ones share one with empty labels. */
const appsMaxUsual = 10_000;
const others = { project: "", app: "" };

/** All apps from `meters`, with their labels. */
export class ListedApps<Meter extends Counted> {
  readonly #meters: () => Iterable<Meter>;
  readonly #appsMax: number;
  /**
   * Labels of apps with their own sample, never released: reusing one for another app would be a
   * step in its counter.
   */
  readonly #listed = new Map<AppId, Sample["labels"]>();

  constructor(meters: () => Iterable<Meter>, appsMax = appsMaxUsual) {
    this.#meters = meters;
    this.#appsMax = appsMax;
  }

  /** One sample for each app, without zeros. */
  each(read: (meter: Meter) => number): Sample[] {
    return this.samples((meter) => [[{}, read(meter)]]);
  }

  /**
   * One sample for each app and set of further labels, without zeros, which would be most of the
   * samples.
   */
  samples(read: (meter: Meter) => Iterable<readonly [Sample["labels"], number]>): Sample[] {
    const samples: Sample[] = [];
    const shared = new Map<string, { readonly labels: Sample["labels"]; value: number }>();
    for (const meter of this.#meters()) {
      const own = this.#labelsOf(meter.appId);
      for (const [further, value] of read(meter)) {
        if (value === 0) continue;
        const key = Object.values(further).join();
        const known = own === undefined ? shared.get(key) : undefined;
        if (own !== undefined) samples.push({ labels: { ...own, ...further }, value });
        else if (known === undefined) shared.set(key, { labels: { ...others, ...further }, value });
        else known.value += value;
      }
    }
    return [...samples, ...shared.values()];
  }

  #labelsOf(app: AppId): Sample["labels"] | undefined {
    const known = this.#listed.get(app);
    if (known !== undefined || this.#listed.size >= this.#appsMax) return known;
    const labels = { project: projectIdOf(app), app };
    this.#listed.set(app, labels);
    return labels;
  }
}
