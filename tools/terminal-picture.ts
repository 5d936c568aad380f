// Draws docs/terminal.svg: the first minute with the command line, as a terminal shows it. It runs
// the commands for real, on a platform of its own, and draws what they print: `node
// tools/terminal-picture.ts`.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { projectDir } from "./tidy/tree.ts";

type Line = { readonly kind: "typed" | "printed"; readonly text: string };

const typed = [
  "slipway up",
  "mkdir hello && cd hello",
  "slipway init",
  "slipway deploy",
  "slipway call hello/run name=Ada",
];
const columnsMax = 96;
const sizes = { line: 18, column: 7.8, margin: 20 } as const;
const stepMs = 300_000;

const home = mkdtempSync(join(tmpdir(), "slipway-picture-"));
try {
  writeFileSync(join(projectDir, "docs/terminal.svg"), svgOf(shot(home)));
} finally {
  run("slipway down", home);
  rmSync(home, { recursive: true });
}

/** What a terminal would show. */
function shot(folder: string): Line[] {
  let cwd = folder;
  return typed.flatMap((text) => {
    const printed = run(text, cwd);
    if (text.includes("cd hello")) cwd = join(folder, "hello");
    return [
      { kind: "typed" as const, text },
      ...printed.map((line) => ({ kind: "printed" as const, text: line })),
    ];
  });
}

function run(text: string, cwd: string): string[] {
  mkdirSync(join(home, "data"), { recursive: true });
  const env = {
    PATH: `${join(projectDir, "cli/bin")}:${process.env["PATH"]}`,
    HOME: home,
    SLIPWAY_DATA_DIR: join(home, "data"),
    SLIPWAY_DRIVER: "process",
  };
  const options = { cwd, env, encoding: "utf8", timeout: stepMs } as const;
  const { status, stdout } = spawnSync("bash", ["-c", `exec 2>&1; ${text}`], options);
  if (status !== 0) throw new Error(`${text}: ${stdout}`);
  const placed = stdout
    .replaceAll(join(home, "data"), "/home/ada/slipway/.slipway")
    .replaceAll(home, "/home/ada");
  return placed
    .replaceAll(basename(home), "ada")
    .trimEnd()
    .split("\n")
    .filter((line) => line !== "");
}

/** Text is text, so that it stays small and sharp, and can be searched. */
function svgOf(lines: readonly Line[]): string {
  const rows = lines.map(({ kind, text }, index) => {
    const y = sizes.margin + (index + 1) * sizes.line;
    const shown = escaped(text.length > columnsMax ? `${text.slice(0, columnsMax - 1)}…` : text);
    const content =
      kind === "typed" ? `<tspan class="p">$ </tspan><tspan class="c">${shown}</tspan>` : shown;
    return `<text x="${sizes.margin}" y="${y}">${content}</text>`;
  });
  const width = columnsMax * sizes.column + 2 * sizes.margin;
  const height = (lines.length + 1) * sizes.line + 2 * sizes.margin;
  const style = `text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#c9d1d9;white-space:pre}.p{fill:#7ee787}.c{fill:#fff;font-weight:600}`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${Math.ceil(width)} ${height}" role="img">
<title>A terminal: slipway up, init, deploy, and a call of the app</title>
<style>${style}</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
${rows.join("\n")}
</svg>
`;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
