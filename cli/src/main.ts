#!/usr/bin/env node
// The command line: runs the command that was typed and exits with its exit code. What the codes mean is in `refused.ts` and
// docs/guides/command-line.md.
import { dispatch } from "./dispatch.ts";
import { thisMachine } from "./machine.ts";

// As in `slipway logs … | head`.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));
}
process.exitCode = await dispatch(process.argv.slice(2), thisMachine());
