// The text of metrics, made by prom-client from the parts' own numbers.
import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "#lib/clock.ts";
import { Histogram } from "#lib/histogram.ts";
import { Tally } from "#lib/tally.ts";
import { Metrics } from "./registry.ts";

test("counters, gauges and histograms are read anew for each text", async () => {
  const metrics = new Metrics({ clock: systemClock });
  const tally = new Tally<string>("good");
  const times = new Histogram([0.1, 1]);
  metrics.counter("slipway_ends_total", "Ends.", () =>
    Array.from(tally, ([result, value]) => ({ labels: { result }, value })),
  );
  metrics.gauge("slipway_size", "Size.", () => Promise.resolve(7));
  metrics.histogram("slipway_took_seconds", "Time.", times);
  assert.match(await metrics.text(), /^slipway_ends_total\{result="good"\} 0$/m);
  for (const result of ["good", 'b"d']) tally.count(result);
  for (const ms of [100, 101, 5000]) times.add(ms);
  assert.equal(
    await metrics.text(),
    `# HELP slipway_ends_total Ends.
# TYPE slipway_ends_total counter
slipway_ends_total{result="good"} 1
slipway_ends_total{result="b\\"d"} 1

# HELP slipway_size Size.
# TYPE slipway_size gauge
slipway_size 7

# HELP slipway_took_seconds Time.
# TYPE slipway_took_seconds histogram
slipway_took_seconds_bucket{le="0.1"} 1
slipway_took_seconds_bucket{le="1"} 2
slipway_took_seconds_bucket{le="+Inf"} 3
slipway_took_seconds_sum 5.201
slipway_took_seconds_count 3
`,
  );
});
