// What a command gets from the machine it runs on: environment, home folder and terminal. Results
// go to standard output, where scripts read them; all messages to a person go to standard error.
import { homedir, platform, arch } from "node:os";
import { styleText } from "node:util";
import { ownVersion } from "./own-files.ts";

/** How a word is coloured. */
export type Paint = "green" | "red" | "yellow" | "dim" | "bold";

export type Machine = {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly homeFolder: string;
  /** True for an interactive terminal: standard input and standard error are terminals. */
  readonly isInteractive: boolean;
  /**
   * The width of the terminal that standard output goes to; null: it goes to a file or a program.
   */
  readonly columns: number | null;
  /** The version of this command line. */
  readonly version: string;
  /** The operating system and the processor, such as `linux x64`. */
  readonly system: string;
  /** Prints a result and a newline. */
  print(text: string): void;
  /** Prints a part of a result, unchanged. */
  write(part: string | Uint8Array): void;
  /** Prints a message to the person and a newline. */
  tell(text: string): void;
  /** The text in a colour; unchanged where standard output is no terminal, or NO_COLOR is set. */
  paint(paint: Paint, text: string): string;
  /** From now on Ctrl-C ends the process with exit code 130. */
  endOnInterrupt(): void;
};

/** What a shell reports of a program that SIGINT ended: 128 and the number of the signal. */
export const interruptedCode = 130;

/** The width to use if no terminal says its own. */
const columnsDefault = 80;

/** The machine that runs this process. */
export function thisMachine(): Machine {
  const { environment, stdout } = { environment: process.env, stdout: process.stdout };
  const isColoured =
    stdout.isTTY && (environment["NO_COLOR"] ?? "") === "" && environment["TERM"] !== "dumb";
  return {
    environment,
    homeFolder: homedir(),
    isInteractive: process.stdin.isTTY && process.stderr.isTTY,
    columns: stdout.isTTY ? stdout.columns || columnsDefault : null,
    version: ownVersion,
    system: `${platform()} ${arch()}`,
    print: (text) => void stdout.write(`${text}\n`),
    write: (part) => void stdout.write(part),
    tell: (text) => void process.stderr.write(`${text}\n`),
    paint: (paint, text) => (isColoured ? styleText(paint, text, { validateStream: false }) : text),
    endOnInterrupt: () => void process.on("SIGINT", () => process.exit(interruptedCode)),
  };
}
