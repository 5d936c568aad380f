// Explains in a sentence for the app's owner how a replica exited. Pure.
import { constants } from "node:os";
import type { ReplicaEvent, ReplicaLine } from "./driver.ts";
import { errorAdvice, type SystemAdvice } from "./error-advice.ts";

export type ExitFacts = {
  /**
   * The code that a shell reports: 128 + n after signal n; null when the shell died too early to
   * report one.
   */
  readonly exitCode: number | null;
  /** The runtime's error message when it failed to become ready. */
  readonly startError: string | null;
  /** The last line of standard error. */
  readonly lastErrorLine: ErrorLine | null;
  /** Why the platform killed the replica when no caller asked for that; null otherwise. */
  readonly endReason: string | null;
  /** Whether a caller asked for the end; `killed`: the replica did not end in time after that. */
  readonly asked: "not" | "stopped" | "killed";
  /** Whose memory limit made the kernel kill a process: the replica's, or the machine's. */
  readonly memoryRanOut: "no" | "own" | "machine";
  /** The replica's memory limit; null when unknown. */
  readonly memoryGb: number | null;
  /** The program of the start command. */
  readonly program: string;
  /** The result of `commandProblem`. */
  readonly commandProblem: string | null;
  /** Default: the advice of the process driver. */
  readonly systemAdvice?: SystemAdvice;
};

/** The code that a shell reports after a signal is this plus the signal's number. */
const signalCodeBase = 128;
/** How much of a line is quoted. */
const quoteLengthMax = 500;

/** A line of standard error. */
export type ErrorLine = Pick<ReplicaLine, "at" | "runId" | "text">;

export type ExitSummary = Omit<
  Extract<ReplicaEvent, { kind: "exited" }>,
  "kind" | "replicaId" | "at"
>;

/**
 * Returns the exit code, the signal and a sentence, which may quote the last line of standard
 * error.
 */
export function exitSummary(facts: ExitFacts): ExitSummary {
  const { lastErrorLine } = facts;
  const summary = summaryOf(facts);
  if (lastErrorLine === null) return summary;
  // A reason that is the same without the line does not quote it.
  const { reason } = summaryOf({ ...facts, lastErrorLine: null });
  const { at, runId } = lastErrorLine;
  return reason === summary.reason
    ? summary
    : { ...summary, quote: { at, runId, reasonWithout: reason } };
}

function summaryOf(facts: ExitFacts): ExitSummary {
  const { exitCode } = facts;
  const isSignal = exitCode !== null && exitCode > signalCodeBase;
  const signal = isSignal ? signalName(exitCode - signalCodeBase) : null;
  if (facts.endReason !== null)
    return { exitCode: null, signal: "SIGKILL", reason: facts.endReason };
  if (facts.asked === "killed")
    return {
      exitCode: null,
      signal: "SIGKILL",
      reason: "The replica did not stop in time and was stopped by force.",
    };
  // The kernel may have killed the shell together with the app.
  if (exitCode === null && facts.asked === "not" && facts.memoryRanOut === "own")
    return { exitCode: null, signal: "SIGKILL", reason: memoryReason(facts) };
  if (exitCode === null)
    return {
      exitCode: null,
      signal: null,
      reason: "The replica was killed from outside the platform, or together with the machine.",
    };
  if (signal !== null) return { exitCode: null, signal, reason: signalReason(facts, signal) };
  return { exitCode, signal: null, reason: codeReason(facts, exitCode) };
}

function signalReason(facts: ExitFacts, signal: string): string {
  if (facts.asked === "stopped") return "The replica was stopped.";
  if (signal !== "SIGKILL") return `The app was ended by ${signal}${detail(facts)}`;
  if (facts.memoryRanOut !== "no") return memoryReason(facts);
  return "The app was killed (SIGKILL), but not by the platform.";
}

function memoryReason({ memoryRanOut, memoryGb }: ExitFacts): string {
  if (memoryRanOut !== "own")
    return "The app was killed by the kernel because the machine ran out of memory.";
  const max = memoryGb === null ? "the memory that it may use" : `its memory of ${memoryGb} GB`;
  return `The app was killed by the kernel because it used up ${max}; raise memory or make the app use less.`;
}

function codeReason(facts: ExitFacts, exitCode: number): string {
  if (facts.startError !== null) return `The app ended with exit code ${exitCode}${detail(facts)}`;
  if (facts.asked === "stopped")
    return exitCode === 0
      ? "The replica was stopped."
      : `The replica was stopped; it ended with exit code ${exitCode}.`;
  if (facts.commandProblem !== null) return facts.commandProblem;
  if (exitCode === 127)
    return `The start command was not found: ${facts.program}. Correct the entrypoint, or add the package that has the command to the dependencies.`;
  if (exitCode === 126)
    return `The start command cannot be executed: ${facts.program}. Make the file executable (git update-index --chmod=+x), or start it with its interpreter.`;
  if (exitCode === 0)
    return "The app exited on its own (exit code 0); its start command must keep running to answer calls.";
  return `The app ended with exit code ${exitCode}${detail(facts)}`;
}

/**
 * Returns the error that ended the app, if it printed one, and what to do about it, as the end of a
 * sentence: `: ImportError: No module named x. Add …`
 */
function detail(facts: ExitFacts): string {
  const line = facts.startError ?? errorLine(facts.lastErrorLine?.text ?? "");
  const text = (line ?? "").trim().replace(/\.$/, "");
  if (text === "") return ".";
  const advice = errorAdvice(text, facts.systemAdvice);
  return advice === "" ? `: ${text}.` : `: ${text}. ${advice}`;
}

/** Returns a line that looks like the end of a traceback; null for any other output. */
function errorLine(line: string): string | null {
  return /^[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit|Warning)(:|$)/.test(line)
    ? line.slice(0, quoteLengthMax)
    : null;
}

function signalName(number: number): string {
  const signal = Object.entries(constants.signals).find(([, value]) => value === number);
  return signal?.[0] ?? `signal ${number}`;
}
