#!/usr/bin/env node
// The command line. So far it starts the platform; commands that talk to a running one will be files beside this one.
import { readFileSync } from "node:fs";
import { nearest } from "@slipway/server/src/lib/nearest.ts";

const help = `Usage: slipway <command>

  start        start the platform; settings are environment variables, see slipway start --help
  --help       show this text
  --version    show the version
`;

function version(): string {
  const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string };
  return manifest.version;
}

/** Runs one command and returns the exit code: 0 when it did what was asked, 2 when it was not understood. */
async function run([command, ...parameters]: readonly string[]): Promise<number> {
  switch (command) {
    case "start": {
      // Only now: the platform is large, and the other commands answer at once.
      const { runPlatform } = await import("@slipway/server/src/run-platform.ts");
      return runPlatform(parameters);
    }
    case "--help":
    case "-h":
    case "help":
      process.stdout.write(help);
      return 0;
    case "--version":
    case "-v":
      process.stdout.write(`${version()}\n`);
      return 0;
    case undefined:
      process.stderr.write(help);
      return 2;
    default: {
      const meant = nearest(command, ["start", "--help", "--version"]);
      process.stderr.write(
        `"${command}" is not a command${meant ? `; did you mean ${meant}?` : "."} See slipway --help.\n`,
      );
      return 2;
    }
  }
}

process.exitCode = await run(process.argv.slice(2));
