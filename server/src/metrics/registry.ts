// The metrics of the platform. Each family reads its numbers from parts of the platform only when
// somebody asks for the text, so that counting only means incrementing a number. prom-client checks
// names and writes the text; its own counters are too slow, as each increment looks up all labels
// as a string.
import { collectDefaultMetrics, Gauge, Registry, type MetricType } from "prom-client";
import type { Clock } from "#lib/clock.ts";
import type { Histogram } from "#lib/histogram.ts";

/** One value of a family. */
export type Sample = { readonly labels: Readonly<Record<string, string>>; readonly value: number };
/** Reads the values of a family; a value that is unknown now has no sample. Must not reject. */
export type Read = () => number | Iterable<Sample> | Promise<number | Iterable<Sample>>;

type Value = {
  readonly labels: Partial<Record<string, string | number>>;
  readonly value: number;
  /** The name of this value, if it is not that of its family. */
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

  /** Adds memory, processor time, descriptors, event loop and garbage collection of the process. */
  addProcess(): void {
    collectDefaultMetrics({ register: this.#registry });
  }

  /** All families in the text format of Prometheus. */
  async text(): Promise<string> {
    const families: string[] = [];
    for (const { name } of this.#registry.getMetricsAsArray()) {
      families.push(await this.#registry.getSingleMetricAsString(name));
      // A family of 10,000 apps takes some 50 ms; calls should not wait for several families in a
      // row.
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

/** A family of any kind, whose values are read whenever prom-client asks for them. */
class Family extends Gauge {
  readonly #kind: Kind;
  readonly #about: { readonly name: string; readonly help: string };
  readonly #read: () => Promise<Value[]>;

  constructor(
    kind: Kind,
    about: { readonly name: string; readonly help: string },
    read: () => Promise<Value[]>,
  ) {
    // Without registers, since `Metrics` registers the family itself.
    super({ ...about, registers: [] });
    this.#kind = kind;
    this.#about = about;
    this.#read = read;
  }

  override async get(): ReturnType<Gauge["get"]> {
    // prom-client declares `MetricType` as numbers, but uses these texts at run time.
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

function samplesOf(values: number | Iterable<Sample>): Value[] {
  return typeof values === "number" ? [{ labels: {}, value: values }] : [...values];
}

function bucketsOf(name: string, { boundsSeconds, buckets, sumMs }: Histogram): Value[] {
  // Each bucket of Prometheus also counts the values of the buckets below it. The last bucket has
  // no upper bound.
  let count = 0;
  const values = Array.from(buckets, (countInBucket, index): Value => {
    count += countInBucket;
    return {
      metricName: `${name}_bucket`,
      labels: { le: boundsSeconds[index] ?? "+Inf" },
      value: count,
    };
  });
  const sum = { metricName: `${name}_sum`, labels: {}, value: sumMs / 1000 };
  return [...values, sum, { metricName: `${name}_count`, labels: {}, value: count }];
}
