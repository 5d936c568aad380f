// The section "A step of calls" of docs/benchmarks.md.
import { busyness, machine, median } from "./report.ts";
import { calmMs, stepSettings, type Step, type StepOptions, type StepResult } from "./step.ts";

/** The section of the document, in Markdown. */
export function stepSection(
  { steps, reachable }: StepResult,
  { rate, seconds }: StepOptions,
): string {
  const row = (name: string, valueOf: (step: Step) => number, unit: string): string => {
    const values = steps.map(valueOf);
    const [middle, min, max] = [median(values), Math.min(...values), Math.max(...values)].map(
      (one) => one.toFixed(0),
    );
    return `| ${name} | ${middle}${unit} | ${min} – ${max}${unit} |`;
  };
  const { replicaConcurrency, maxReplicaCount } = stepSettings;
  const isCalm = steps.every(({ calmAfterMs }) => calmAfterMs !== null);
  return [
    "## A step of calls",
    "",
    `${new Date().toISOString().slice(0, 10)}, ${machine()}. ${steps.length} steps from 0 to ${rate} calls/s for ${seconds} s, to a cortex app at zero`,
    `replicas (\`replicaConcurrency\` ${replicaConcurrency}, \`maxReplicaCount\` ${maxReplicaCount}). ${busyness()} Node ${process.version}.`,
    "",
    "| what | median | min – max |",
    "|---|---|---|",
    row("first answer after", ({ firstMs }) => firstMs, " ms"),
    row(
      `no call takes over ${calmMs} ms from`,
      ({ calmAfterMs }) => calmAfterMs ?? seconds * 1000,
      isCalm ? " ms on" : " ms on (the whole time in some)",
    ),
    row("latency, p50", ({ p50Ms }) => p50Ms, " ms"),
    row("latency, p99", ({ p99Ms }) => p99Ms, " ms"),
    row("latency, max", ({ maxMs }) => maxMs, " ms"),
    row("failed calls", ({ failed }) => failed, ""),
    row("replicas at the end", ({ replicas }) => replicas, ""),
    "",
    `The load generator shares the machine. 64 callers that wait for each answer get ${reachable.toFixed(0)} calls/s from the same app.`,
    "",
  ].join("\n");
}
