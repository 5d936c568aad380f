// The proxy's numbers in the text format that Prometheus reads. Ids hold no character that needs escaping there.
import { bucketBoundsSeconds, type Histogram, type Meter } from "./meter.ts";

/** All families, each with its help and type; ends with a line end unless it is empty. */
export function metricsText(meters: Iterable<Meter>): string {
  const all = [...meters];
  const lines = [
    ...family("slipway_calls_total", "counter", "Calls of apps by the status that the client got.", all, (meter) =>
      [...meter.statuses()].map(([status, count]) => `{${labels(meter)},status="${status}"} ${count}`),
    ),
    ...family("slipway_calls_received_total", "counter", "Calls that reached an app, answered or not.", all, (meter) =>
      one(meter, meter.receivedTotal),
    ),
    ...family(
      "slipway_calls_client_gone_total",
      "counter",
      "Calls whose client went away before the answer was complete.",
      all,
      (meter) => one(meter, meter.clientGoneTotal),
    ),
    ...family("slipway_calls_cut_total", "counter", "Answers that broke off after their head was sent.", all, (meter) =>
      one(meter, meter.cutTotal),
    ),
    ...family("slipway_calls_running", "gauge", "Calls that replicas work on.", all, (meter) =>
      one(meter, meter.running),
    ),
    ...family("slipway_calls_waiting", "gauge", "Calls that wait for a replica with room.", all, (meter) =>
      one(meter, meter.waiting),
    ),
    ...family(
      "slipway_call_seconds",
      "histogram",
      "From the arrival of a call to the end of its answer.",
      all,
      () => [],
    ),
    ...all.flatMap((meter) => histogram("slipway_call_seconds", meter, meter.duration)),
    ...family("slipway_call_line_seconds", "histogram", "Time in the line, of calls that had to wait.", all, () => []),
    ...all.flatMap((meter) => histogram("slipway_call_line_seconds", meter, meter.lineWait)),
  ];
  return all.length === 0 ? "" : `${lines.join("\n")}\n`;
}

function family(
  name: string,
  type: "counter" | "gauge" | "histogram",
  help: string,
  meters: readonly Meter[],
  samples: (meter: Meter) => string[],
): string[] {
  const lines = meters.flatMap(samples).map((sample) => `${name}${sample}`);
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines];
}

function one(meter: Meter, value: number): string[] {
  return [`{${labels(meter)}} ${value}`];
}

function labels({ appId }: Meter): string {
  return `app="${appId}"`;
}

function histogram(name: string, meter: Meter, values: Histogram): string[] {
  const lines: string[] = [];
  let sum = 0;
  for (const [index, count] of values.buckets.entries()) {
    sum += count;
    const bound = bucketBoundsSeconds[index] ?? "+Inf";
    lines.push(`${name}_bucket{${labels(meter)},le="${bound}"} ${sum}`);
  }
  lines.push(`${name}_sum{${labels(meter)}} ${values.sumMs / 1000}`, `${name}_count{${labels(meter)}} ${sum}`);
  return lines;
}
