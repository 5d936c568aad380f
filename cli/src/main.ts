#!/usr/bin/env node
// The command line: runs the command that was typed and exits with its exit code. What the codes
// mean is in `refused.ts` and docs/guides/command-line.md.
import { enableCompileCache } from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";

// Halves the time until a command starts. Not in the folder for temporary files, where other users
// could put code for this one.
enableCompileCache(
  join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "slipway", "compiled"),
);
const [{ dispatch }, { thisMachine }, { plainLines }] = await Promise.all([
  import("./dispatch.ts"),
  import("./machine.ts"),
  import("./plain-text.ts"),
]);

// As in `slipway logs … | head`.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) =>
    process.exit(error.code === "EPIPE" ? 0 : 1),
  );
}
// A bug. Node would print the error as it is, and its text may be a stranger's: JSON.parse quotes
// what it was given.
process.on("uncaughtException", (error) => {
  process.stderr.write(`${plainLines(inspect(error))}\n`);
  process.exit(1);
});
process.exitCode = await dispatch(process.argv.slice(2), thisMachine());
