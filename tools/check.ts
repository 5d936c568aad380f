// `npm run check`: all static checks. Prints one line per step with its duration; for a failed step
// also the findings and how to fix them. `npm run check -- lint types` runs only these steps.
import { spawn, spawnSync } from "node:child_process";
import { projectDir } from "./tidy/tree.ts";

type Step = { readonly name: string; readonly command: readonly string[]; readonly remedy: string };

const bin = (name: string): string => `node_modules/.bin/${name}`;
const tool = (name: string, ...parameters: string[]): string[] => [
  process.execPath,
  `tools/${name}.ts`,
  ...parameters,
];

const steps: readonly Step[] = [
  {
    name: "format",
    command: [bin("oxfmt"), "--list-different"],
    remedy: "npx oxfmt <the files above>",
  },
  {
    name: "lint",
    command: [
      bin("oxlint"),
      "--type-aware",
      "--deny-warnings",
      "--report-unused-disable-directives",
    ],
    remedy: "see the findings above; npx oxlint --type-aware --fix <file> repairs some",
  },
  { name: "types", command: [bin("tsc"), "--pretty", "false"], remedy: "npx tsc" },
  {
    name: "dashboard",
    command: [bin("tsc"), "--project", "dashboard", "--pretty", "false"],
    remedy: "npx tsc --project dashboard",
  },
  {
    name: "tidy",
    command: tool("tidy"),
    remedy: "see the findings above; tools/rules.ts holds the rules",
  },
  {
    name: "exports",
    command: [process.execPath, bin("knip")],
    remedy: "take `export` away; if nothing uses it then, delete it",
  },
  { name: "changes", command: tool("release", "--check"), remedy: "see changes/README.md" },
  { name: "lock", command: tool("lock", "--check"), remedy: "node tools/lock.ts --write" },
  {
    name: "interfaces",
    command: tool("interfaces", "--check"),
    remedy: "node tools/interfaces.ts --write",
  },
  {
    name: "settings",
    command: tool("settings", "--check"),
    remedy: "node tools/settings.ts --write",
  },
  { name: "openapi", command: tool("openapi", "--check"), remedy: "node tools/openapi.ts --write" },
  { name: "fields", command: tool("fields", "--check"), remedy: "node tools/fields.ts --write" },
  { name: "schema", command: tool("schema", "--check"), remedy: "node tools/schema.ts --write" },
];

type Result = { readonly ok: boolean; readonly output: string; readonly seconds: number };

/** A step that takes longer has failed. */
const stepWaitMs = 180_000;

function run({ command: [file = "", ...parameters] }: Step): Promise<Result> {
  const began = performance.now();
  const child = spawn(file, parameters, {
    cwd: projectDir,
    stdio: ["ignore", "pipe", "pipe"],
    timeout: stepWaitMs,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  const seconds = (): number => (performance.now() - began) / 1000;
  return new Promise((resolve) => {
    child.on("error", (error) => resolve({ ok: false, output: error.message, seconds: seconds() }));
    child.on("close", (status) => resolve({ ok: status === 0, output, seconds: seconds() }));
  });
}

function choose(names: readonly string[]): readonly Step[] {
  const unknown = names.find((name) => steps.every((step) => step.name !== name));
  if (unknown === undefined)
    return names.length === 0 ? steps : steps.filter(({ name }) => names.includes(name));
  throw new Error(
    `"${unknown}" is not a step; steps are ${steps.map(({ name }) => name).join(", ")}`,
  );
}

/** Lint and types need the dashboard's packages. Returns whether they are there. */
function installDashboard(): boolean {
  const { status } = spawnSync(process.execPath, ["tools/dashboard.mjs", "--packages"], {
    cwd: projectDir,
    stdio: ["ignore", "inherit", "inherit"],
  });
  return status === 0;
}

async function main(): Promise<boolean> {
  if (!installDashboard()) return false;
  let failed = 0;
  // One after the other: most steps use all cores themselves.
  for (const step of choose(process.argv.slice(2))) {
    const { ok, output, seconds } = await run(step);
    if (!ok) console.log(output.trimEnd());
    console.log(
      `${ok ? "✔" : "✖"} ${step.name} (${seconds.toFixed(1)} s)${ok ? "" : `; to put it right: ${step.remedy}`}`,
    );
    if (!ok) failed++;
  }
  return failed === 0;
}

process.exitCode = (await main()) ? 0 : 1;
