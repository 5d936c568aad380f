// Samples by app, for a bounded number of apps: the memory of Prometheus grows with each set of
// labels that it ever saw.
import { projectIdOf, type AppId } from "#lib/ids.ts";
import type { Sample } from "./registry.ts";

/** The counters of an app, as far as they must be known here. */
type AppCounters = { readonly appId: AppId };

/** How many apps have samples of their own; later ones share one with empty labels. */
const appsMaxDefault = 10_000;
const sharedLabels = { project: "", app: "" };

/** Makes the samples of the apps in `meters`. */
export class ListedApps<Meter extends AppCounters> {
  readonly #meters: () => Iterable<Meter>;
  readonly #appsMax: number;
  /**
   * The labels of the apps that have samples of their own. No app is ever removed: another app
   * would then move from the shared sample to one of its own, and both counters would jump.
   */
  readonly #listed = new Map<AppId, Sample["labels"]>();

  constructor(meters: () => Iterable<Meter>, appsMax = appsMaxDefault) {
    this.#meters = meters;
    this.#appsMax = appsMax;
  }

  /** One sample for each app; zeros are left out. */
  each(read: (meter: Meter) => number): Sample[] {
    return this.samples((meter) => [[{}, read(meter)]]);
  }

  /**
   * One sample for each app and set of further labels. Zeros are left out, since most samples would
   * be zero.
   */
  samples(read: (meter: Meter) => Iterable<readonly [Sample["labels"], number]>): Sample[] {
    const samples: Sample[] = [];
    const shared = new Map<string, { readonly labels: Sample["labels"]; value: number }>();
    for (const meter of this.#meters()) {
      const labels = this.#labelsOf(meter.appId);
      for (const [further, value] of read(meter)) {
        if (value === 0) continue;
        // Apps without labels of their own share one sample for each set of further labels.
        const key = Object.values(further).join();
        const sample = labels === undefined ? shared.get(key) : undefined;
        if (labels !== undefined) samples.push({ labels: { ...labels, ...further }, value });
        else if (sample === undefined)
          shared.set(key, { labels: { ...sharedLabels, ...further }, value });
        else sample.value += value;
      }
    }
    return [...samples, ...shared.values()];
  }

  #labelsOf(app: AppId): Sample["labels"] | undefined {
    const listed = this.#listed.get(app);
    if (listed !== undefined || this.#listed.size >= this.#appsMax) return listed;
    const labels = { project: projectIdOf(app), app };
    this.#listed.set(app, labels);
    return labels;
  }
}
