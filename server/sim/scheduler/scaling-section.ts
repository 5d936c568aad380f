// The section "Scaling" of docs/benchmarks.md.
import { callsPerReplica, coldMs } from "./contender.ts";
import { comparedSettings, contenders, seeds, type Compared } from "./comparison.ts";

const names = {
  slipway: "Slipway",
  defaults: "Slipway, no setting",
  knative: "Knative",
  perfect: "perfect line",
} as const satisfies Record<(typeof contenders)[number], string>;

/** The table, in Markdown. */
export function scalingSection(all: readonly Compared[]): string {
  const { scalingTarget, cooldownPeriodSeconds } = comparedSettings;
  const lines = [
    "## Scaling",
    "",
    `Simulated: an hour of each load, drawn ${seeds.length} times; the numbers are means. A replica runs ${callsPerReplica} calls at once and takes ${coldMs / 1000} s to`,
    "start; a call takes 1 s on average. The same calls go to our whole scheduler (`scalingTarget` " +
      `${scalingTarget},`,
    `\`cooldownPeriodSeconds\` ${cooldownPeriodSeconds}; and once more without any setting, so with a target of 100 and a cooldown of 10), to the rule of`,
    "Knative's autoscaler with its defaults (target 70 %, windows of 60 s and 6 s), and to an oracle that knows each call in",
    "advance: it starts every replica exactly early enough, and no scaler without waiting can do with fewer replica-seconds.",
    "",
    "| load | who | calls waited, in total | p99 of waiting | replica-seconds | changes of the number |",
    "|---|---|---|---|---|---|",
  ];
  for (const compared of all) {
    for (const who of contenders) {
      const { waitedSeconds, waitP99Ms, replicaSeconds, changes } = compared[who];
      const numbers = [
        `${waitedSeconds.toFixed(0)} s`,
        `${waitP99Ms.toFixed(0)} ms`,
        replicaSeconds.toFixed(0),
      ];
      const cells = [...numbers, who === "perfect" ? "–" : changes.toFixed(0)];
      lines.push(
        `| ${who === "slipway" ? compared.shape.name : ""} | ${names[who]} | ${cells.join(" | ")} |`,
      );
    }
  }
  const sum = (
    who: (typeof contenders)[number],
    field: "waitedSeconds" | "replicaSeconds",
  ): number => all.reduce((total, compared) => total + compared[who][field], 0);
  const waited = sum("slipway", "waitedSeconds") / sum("knative", "waitedSeconds");
  const replicas = sum("slipway", "replicaSeconds") / sum("knative", "replicaSeconds");
  lines.push(
    "",
    `In sum, callers of Slipway wait ${waited.toFixed(2)} × as long as those of Knative, with ${replicas.toFixed(2)} × the replica-seconds. The loads:`,
    "",
    ...all.map(({ shape, calls }) => `- ${shape.name}: ${shape.about} (${calls} calls).`),
    "",
  );
  return lines.join("\n");
}
