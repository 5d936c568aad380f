// The metrics of the platform: families by name that read the parts' own numbers on demand, so that
// counting only means incrementing a number. prom-client checks names and writes the text; its own
// counters look up a string of all labels on each increment.
import { collectDefaultMetrics, Gauge, Registry, type MetricType } from "prom-client";
import type { Clock } from "#lib/clock.ts";
import type { Histogram } from "#lib/histogram.ts";

/** One sample. */
export type Sample = { readonly labels: Readonly<Record<string, string>>; readonly value: number };
/** Reads a family; a currently unknown value has no samples. Must not reject. */
export type Read = () => number | Iterable<Sample> | Promise<number | Iterable<Sample>>;

type Value = {
  readonly labels: Partial<Record<string, string | number>>;
  readonly value: number;
  metricName?: string;
};
type Kind = "counter" | "gauge" | "histogram";

/** All families of one platform. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #clock: Clock;

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** The content type of the text. */
  get contentType(): string {
    return this.#registry.contentType;
  }

  counter(name: `slipway_${string}_total`, help: string, read: Read): void {
    this.#add("counter", { name, help }, async () => samplesOf(await read()));
  }

  gauge(name: `slipway_${string}`, help: string, read: Read): void {
    this.#add("gauge", { name, help }, async () => samplesOf(await read()));
  }

  histogram(name: `slipway_${string}_seconds`, help: string, histogram: Histogram): void {
    this.#add("histogram", { name, help }, () => Promise.resolve(bucketsOf(name, histogram)));
  }

  /**
   * Memory, processor time and descriptors of this process, its event loop and garbage collection.
   */
  addProcess(): void {
    collectDefaultMetrics({ register: this.#registry });
  }

  /** All families in the text format of Prometheus. */
  async text(): Promise<string> {
    const families: string[] = [];
    for (const { name } of this.#registry.getMetricsAsArray()) {
      families.push(await this.#registry.getSingleMetricAsString(name));
      // A family of 10,000 apps takes some 50 ms; calls should not wait for several in a row.
      await this.#clock.sleep(0);
    }
    return `${families.join("\n\n")}\n`;
  }

  #add(
    kind: Kind,
    about: { readonly name: string; readonly help: string },
    read: () => Promise<Value[]>,
  ): void {
    this.#registry.registerMetric(new Family(kind, about, read));
  }
}

class Family extends Gauge {
  readonly #kind: Kind;
  readonly #about: { readonly name: string; readonly help: string };
  readonly #read: () => Promise<Value[]>;

  constructor(
    kind: Kind,
    about: { readonly name: string; readonly help: string },
    read: () => Promise<Value[]>,
  ) {
    super({ ...about, registers: [] });
    this.#kind = kind;
    this.#about = about;
    this.#read = read;
  }

  override async get(): ReturnType<Gauge["get"]> {
    // The types say number, but at run time it is this text.
    const type = this.#kind as unknown as MetricType;
    return {
      ...this.#about,
      type,
      aggregator: "sum",
      values: await this.#read(),
      collect: () => undefined,
    };
  }
}

function samplesOf(read: number | Iterable<Sample>): Value[] {
  return typeof read === "number" ? [{ labels: {}, value: read }] : [...read];
}

function bucketsOf(name: string, { boundsSeconds, buckets, sumMs }: Histogram): Value[] {
  let count = 0;
  const values = Array.from(buckets, (inBucket, index): Value => {
    count += inBucket;
    return {
      metricName: `${name}_bucket`,
      labels: { le: boundsSeconds[index] ?? "+Inf" },
      value: count,
    };
  });
  const sum = { metricName: `${name}_sum`, labels: {}, value: sumMs / 1000 };
  return [...values, sum, { metricName: `${name}_count`, labels: {}, value: count }];
}
