// Explains the exit codes 126 and 127 of a start command. Shells end with these codes when they
// cannot run a program. The program of the start command may be there all the same: then its
// interpreter may be missing, or another program that it runs.
/** How much of a file is read: its first line names the interpreter. */
const beginBytesMax = 512;
/** How much of the name of a missing program is shown. */
const programLengthMax = 200;

export type CommandFacts = {
  readonly exitCode: number | null;
  /** The program of the start command. */
  readonly program: string;
  /** The last line of standard error; null: nothing was printed. */
  readonly lastErrorLine: string | null;
  /** Returns the first bytes of a file of the app; null when it cannot be read. */
  readonly readBegin: (path: string, bytesMax: number) => Promise<Buffer | null>;
};

/**
 * Returns a sentence for the app's owner; null when the program of the start command itself is
 * missing, or when nothing is known.
 */
export async function commandProblem(facts: CommandFacts): Promise<string | null> {
  if (facts.exitCode !== 127 && facts.exitCode !== 126) return null;
  const { program } = facts;
  const missing = missingProgram(facts.lastErrorLine ?? "");
  for (const path of [program, missing]) {
    if (path === null || !path.includes("/")) continue;
    const begin = await facts.readBegin(path, beginBytesMax);
    const problem = begin === null ? null : fileProblem(path, begin);
    if (problem !== null) return problem;
  }
  // Some shells print the carriage return at the end of the name, others `\r`.
  if (missing?.endsWith("\\r") === true || missing?.endsWith("\r") === true)
    return windowsLineEndings("A script that it runs");
  if (facts.exitCode === 126) return null;
  if (missing !== null && missing !== program)
    return `The start command ended with exit code 127: the program ${missing}, which it runs, was not found. Correct the command, or add the package that has ${missing} to the dependencies.`;
  return isShell(program)
    ? "The start command ended with exit code 127: a program that it runs was not found. The app's log may say which; correct the command, or add the package that has the program to the dependencies."
    : null;
}

/** Says why an existing file cannot be run; null when its beginning shows no reason. */
function fileProblem(path: string, begin: Buffer): string | null {
  const line = /^#!([^\n]*)/.exec(begin.toString("utf8"))?.[1];
  if (line === undefined) {
    // In a compiled program, the letters ELF follow the first byte.
    return begin.subarray(1, 4).toString("latin1") === "ELF"
      ? `The start command ${path} is a program for another system: its loader is not there. Build it for this one (Linux, glibc), or link it statically.`
      : null;
  }
  if (line.endsWith("\r")) return windowsLineEndings(path);
  const [interpreter = "", argument] = line.trim().split(/\s+/);
  const needed = interpreter.endsWith("/env") && argument !== undefined ? argument : interpreter;
  return `The first line of ${path} asks for the program ${needed}, which was not found. Correct that line, or add the package that has ${needed} to the dependencies.`;
}

function windowsLineEndings(path: string): string {
  return `${path} has line endings of Windows (CRLF), so the program in its first line is not found. Save it with LF, for example by the line "*.sh text eol=lf" in .gitattributes and git add --renormalize .`;
}

/** Messages of shells, env and the engine's init about a program that they did not find. */
const forms = [
  /: (\S+): bad interpreter: No such file or directory$/,
  /(?:^|: )(?:exec: )?(\S+): (?:command )?not found$/,
  /: (\S+): cannot execute: required file not found$/,
  /^(?:\S*\/)?env: (?:can't execute )?['‘]?([^'’: ]+)['’]?: No such file or directory$/,
  /^\[FATAL tini \(\d+\)\] exec (.+) failed: (?:No such file or directory|Permission denied)$/,
  /^\S+: (?:line \d+: |\d+: )?(\S+): No such file or directory$/,
];

function missingProgram(line: string): string | null {
  for (const form of forms) {
    const program = form.exec(line)?.[1];
    // Removes the quotation marks around the name.
    if (program !== undefined)
      return program.replace(/^\$?'(.*)'$/, "$1").slice(0, programLengthMax);
  }
  return null;
}

function isShell(program: string): boolean {
  return /(?:^|\/)(?:sh|bash|dash|ash|zsh|busybox|env)$/.test(program);
}
