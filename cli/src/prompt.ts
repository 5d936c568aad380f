// Asks the person at the terminal. Without a terminal nothing is asked: the command is refused,
// with what to type instead.
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import type { Given, Option } from "./command.ts";
import { interruptedCode, type Machine } from "./machine.ts";
import { plainLines } from "./plain-text.ts";
import { exitCodes, misuse, Refused } from "./refused.ts";

/** The option of commands that ask before they destroy something. */
export const yesOption = {
  yes: { value: null, about: "Do not ask. Required without a terminal.", short: "y" },
} as const satisfies Record<string, Option>;

/**
 * The same, accepted by commands that change something and ask nothing: a script may pass it to all
 * of them.
 */
export const unneededYesOption = {
  yes: { ...yesOption.yes, about: "There is nothing to ask.", isHidden: true },
} as const satisfies Record<string, Option>;

const inputBytesMax = 50_000_000;

/**
 * Returns if the person agrees or has passed --yes; throws `Refused` otherwise. `question` ends
 * with a question mark.
 */
export async function confirm(given: Given, machine: Machine, question: string): Promise<void> {
  if (given.has("yes")) return;
  if (!machine.isInteractive)
    throw misuse(`${question} There is no terminal to ask on: add --yes to do it.`);
  const answer = await ask(`${question} [y/N] `, { isShown: true });
  if (!/^y(?:es)?$/i.test(answer.trim()))
    throw new Refused("Nothing was changed.", { exitCode: exitCodes.failed });
}

/** A secret that the person types, which is not shown. Only on a terminal. */
export async function askSecret(question: string): Promise<string> {
  const answer = await ask(question, { isShown: false });
  process.stderr.write("\n");
  return answer;
}

/** Everything that standard input has, at most 50 MB. */
export async function readInput(): Promise<Buffer> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of process.stdin as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > inputBytesMax)
      throw misuse(`The standard input has more than ${inputBytesMax} bytes.`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** `isShown`: whether the terminal shows what is typed. */
async function ask(asked: string, { isShown }: { readonly isShown: boolean }): Promise<string> {
  const question = plainLines(asked);
  const output = isShown
    ? process.stderr
    : new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output, terminal: true });
  // Only from here on the terminal itself shows nothing: what is typed as soon as the question is
  // there would be seen.
  if (!isShown) process.stderr.write(question);
  const ended = new AbortController();
  lines.once("SIGINT", () => {
    lines.close();
    process.stderr.write("\n");
    process.exit(interruptedCode);
  });
  lines.once("close", () => ended.abort());
  try {
    return await lines.question(isShown ? question : "", { signal: ended.signal });
  } catch (error) {
    if (!ended.signal.aborted) throw error;
    throw new Refused("Nothing was typed, so nothing was changed.", { cause: error });
  } finally {
    lines.close();
  }
}
