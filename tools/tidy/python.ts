// The same rules for the Python runtime and for migrations: sizes of files and functions, and the
// opening comment.
import { sizesMax } from "#rules.ts";
import type { Finding } from "./source.ts";

/**
 * Every Python file or function that is too large, and every Python or SQL file without an opening
 * comment.
 */
export function scriptFindings(files: Readonly<Record<string, string>>): Finding[] {
  return Object.entries(files).flatMap(([path, text]) => {
    const findings = [...opening(path, text), ...fileSize(path, text)];
    return path.endsWith(".py") ? [...findings, ...functionSizes(path, text)] : findings;
  });
}

function opening(path: string, text: string): Finding[] {
  const isPython = path.endsWith(".py");
  if (isPython && text.trim() === "") return [];
  if ((isPython ? /^(#!.*\n)?(# -\*-.*\n)?("""|#) ?\S/ : /^-- \S/).test(text)) return [];
  return [
    {
      path,
      line: 1,
      rule: "opening",
      what: `must open with a ${isPython ? "docstring" : "comment"}: what it is for`,
    },
  ];
}

function fileSize(path: string, text: string): Finding[] {
  const lines = text.trimEnd().split("\n").length;
  if (lines <= sizesMax.fileLines) return [];
  return [
    {
      path,
      rule: "size",
      what: `has ${lines} lines, at most ${sizesMax.fileLines}; give one of its parts a file`,
    },
  ];
}

/** A function extends from its `def` to its last line with deeper indentation. */
function functionSizes(path: string, text: string): Finding[] {
  const lines = text.split("\n");
  return lines.flatMap((line, index) => {
    const start = /^(\s*)(?:async )?def (\w+)/.exec(line);
    if (start === null) return [];
    const count = bodyEnd(lines, index, start[1]?.length ?? 0) - index + 1;
    if (count <= sizesMax.functionLines) return [];
    const what = `${start[2]} has ${count} lines, at most ${sizesMax.functionLines}; take steps out of it and name them`;
    return [{ path, line: index + 1, rule: "size", what }];
  });
}

/**
 * The index of the last line of the function at `first` with `indent` spaces; brackets may close at
 * its own indentation.
 */
function bodyEnd(lines: readonly string[], first: number, indent: number): number {
  let last = first;
  for (let index = first + 1; index < lines.length; index++) {
    const line = lines[index] ?? "";
    if (line.trim() === "") continue;
    const depth = line.length - line.trimStart().length;
    if (depth <= indent && !/^\s*[)\]}]/.test(line)) break;
    last = index;
  }
  return last;
}
