// Which of the platform's messages an app's log level lets into a build log.
import assert from "node:assert/strict";
import { test } from "node:test";
import { logLevels } from "@slipway/contract/app-choices.ts";
import { systemClock } from "#lib/clock.ts";
import { newBuildId } from "#lib/ids.ts";
import { BuildOutput } from "./build-output.ts";

const written = {
  ERROR: ["Error: it failed", "from a tool"],
  INFO: ["a step", "Warning: odd", "Error: it failed", "from a tool"],
  DEBUG: ["a step", "a detail", "Warning: odd", "Error: it failed", "from a tool"],
  INTERNAL: ["a step", "a detail", "Warning: odd", "Error: it failed", "from a tool"],
} as const;

for (const level of logLevels) {
  test(`${level} lets through what it is to, and all that tools and the app print`, () => {
    const lines: string[] = [];
    const sink = {
      append: (_id: unknown, added: readonly { readonly line: string }[]) => {
        lines.push(...added.map(({ line }) => line));
        return Promise.resolve();
      },
      flush: () => Promise.resolve(),
    };
    const output = new BuildOutput({ sink, buildId: newBuildId(), clock: systemClock, level });
    output.say("plan", "a step");
    output.say("plan", "a detail", "DEBUG");
    output.log("plan", "platform", "Warning: odd");
    output.say("release", "Error: it failed");
    output.log("start", "stderr", "from a tool");
    assert.deepEqual(lines, written[level]);
  });
}
