// What a command gets from the machine it runs on: environment, home folder and terminal. Results go to standard output,
// where scripts read them; all messages to a person go to standard error.
import { homedir, platform, arch } from "node:os";
import { readFileSync } from "node:fs";

export type Machine = {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly homeFolder: string;
  /** True for an interactive terminal: standard input and standard error are terminals. */
  readonly isInteractive: boolean;
  /** The version of this command line. */
  readonly version: string;
  /** For example `linux x64`. */
  readonly system: string;
  /** Prints a result and a newline. */
  print(text: string): void;
  /** Prints a message to the person and a newline. */
  tell(text: string): void;
};

/** The machine that runs this process. */
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
