// What a command is handed of the machine it runs on: its environment, the home folder, and the terminal. Results go to
// standard output, where a script takes them; everything said to a person goes to standard error.
import { homedir, platform, arch } from "node:os";
import { readFileSync } from "node:fs";

export type Machine = {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly homeFolder: string;
  /** True when a person sits in front of it: standard input and standard error are terminals. */
  readonly isInteractive: boolean;
  /** The version of this command line. */
  readonly version: string;
  /** Such as `linux x64`. */
  readonly system: string;
  /** Prints a result, with a line's end. */
  print(text: string): void;
  /** Says something to the person, with a line's end. */
  tell(text: string): void;
};

/** The machine that this process runs on. */
export function thisMachine(): Machine {
  return {
    environment: process.env,
    homeFolder: homedir(),
    isInteractive: process.stdin.isTTY && process.stderr.isTTY,
    version: ownVersion(),
    system: `${platform()} ${arch()}`,
    print: (text) => void process.stdout.write(`${text}\n`),
    tell: (text) => void process.stderr.write(`${text}\n`),
  };
}

function ownVersion(): string {
  const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string };
  return manifest.version;
}
