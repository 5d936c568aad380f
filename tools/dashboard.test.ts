// The build of the dashboard beside a running platform, tested in a small separate project whose
// npm and vite are scripts. Each case runs tools/dashboard.mjs as a process, as `npm start` does.
import assert from "node:assert/strict";
import { spawn, spawnSync, type ChildProcess, type SpawnSyncReturns } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { until } from "@slipway/server/test/support/until.ts";
import { projectDir } from "#tidy/tree.ts";

/** Builds a page of the text in src/main.tsx. */
const workingBuild = `
const { appendFileSync, mkdirSync, readFileSync, writeFileSync } = require("node:fs");
appendFileSync("../builds", "build\\n");
const folder = process.argv[process.argv.indexOf("--outDir") + 1];
mkdirSync(folder, { recursive: true });
writeFileSync(folder + "/index.html", readFileSync("src/main.tsx"));`;

class Project {
  readonly folder: string;

  constructor(t: TestContext) {
    this.folder = mkdtempSync(join(tmpdir(), "dashboard-"));
    t.after(() => rmSync(this.folder, { recursive: true, force: true }));
    const folders = ["bin", "tools/setup", "node_modules/.bin", "client/src", "contract/src"];
    for (const name of [...folders, "dashboard/src", "dashboard/build", "dashboard/public"]) {
      mkdirSync(join(this.folder, name), { recursive: true });
    }
    for (const name of ["dashboard.mjs", "setup/npm.mjs", "setup/lock.mjs"]) {
      copyFileSync(join(projectDir, "tools", name), join(this.folder, "tools", name));
    }
    symlinkSync(process.execPath, join(this.folder, "node_modules/.bin/node"));
    for (const name of ["index.html", "package.json", "package-lock.json", "tsconfig.json"]) {
      this.write(`dashboard/${name}`, "{}");
    }
    this.write("dashboard/src/main.tsx", "first");
    this.install(workingBuild);
  }

  write(path: string, text: string): void {
    writeFileSync(join(this.folder, path), text);
  }

  /** From now on `npm ci` installs this vite. */
  install(vite: string): void {
    this.write("vite.cjs", vite);
    this.npm(
      "echo run >> ../installs; mkdir -p node_modules/vite/bin && cp ../vite.cjs node_modules/vite/bin/vite.js",
    );
  }

  /** The behaviour of `npm ci` from now on. */
  npm(script: string): void {
    this.write(
      "bin/npm",
      `#!/bin/sh\nif [ "$1" = --version ]; then echo 11.0.0; exit; fi\n${script}\n`,
    );
    chmodSync(join(this.folder, "bin/npm"), 0o755);
    rmSync(join(this.folder, "dashboard/node_modules"), { recursive: true, force: true });
  }

  get #options() {
    const environment = { ...process.env, PATH: `${join(this.folder, "bin")}:/usr/bin:/bin` };
    return { cwd: this.folder, env: environment, timeout: 60_000 } as const;
  }

  build(...parameters: string[]): SpawnSyncReturns<string> {
    return spawnSync(process.execPath, ["tools/dashboard.mjs", ...parameters], {
      ...this.#options,
      encoding: "utf8",
    });
  }

  begin(...parameters: string[]): ChildProcess {
    return spawn(process.execPath, ["tools/dashboard.mjs", ...parameters], {
      ...this.#options,
      stdio: "ignore",
    });
  }

  /** How often something was counted. */
  count(name: "installs" | "builds"): number {
    const path = join(this.folder, name);
    return existsSync(path) ? readFileSync(path, "utf8").trim().split("\n").length : 0;
  }

  read(name: string): string | null {
    const path = join(this.folder, "dashboard/dist", name);
    return existsSync(path) ? readFileSync(path, "utf8") : null;
  }

  get page(): string | null {
    return this.read("pages/index.html");
  }
}

test("the first run installs and builds, the second finds nothing to do and says nothing", (t) => {
  const project = new Project(t);
  const first = project.build();
  assert.equal(first.status, 0, first.stderr);
  assert.match(first.stderr, /^The dashboard was built in /);
  assert.equal(project.page, "first");
  const again = project.build();
  assert.deepEqual([again.status, again.stderr + again.stdout], [0, ""]);
  assert.deepEqual([project.count("installs"), project.count("builds")], [1, 1]);
});

test("a changed source or package builds again, in the place of the pages before, of which nothing is left", (t) => {
  const project = new Project(t);
  project.build();
  project.write("dashboard/src/main.tsx", "second");
  assert.equal(project.build().status, 0);
  assert.equal(project.page, "second");
  project.write("contract/src/words.ts", "export const words = 1;");
  project.build();
  assert.deepEqual([project.count("installs"), project.count("builds")], [1, 3]);
  project.write("dashboard/package-lock.json", '{ "a": 1 }');
  project.build();
  assert.deepEqual([project.count("installs"), project.count("builds")], [2, 4]);
  assert.deepEqual(readdirSync(join(project.folder, "dashboard/dist")).sort(), ["pages", "stamp"]);
});

test("several at once install and build once", async (t) => {
  const project = new Project(t);
  const children = [1, 2, 3].map(() => project.begin());
  const codes = await Promise.all(
    children.map(async (child) => (await once(child, "close"))[0] as number),
  );
  assert.deepEqual(codes, [0, 0, 0]);
  assert.deepEqual([project.count("installs"), project.count("builds")], [1, 1]);
});

test("only the packages are installed for the type check", (t) => {
  const project = new Project(t);
  assert.equal(project.build("--packages").status, 0);
  assert.deepEqual([project.count("installs"), project.count("builds")], [1, 0]);
  assert.equal(project.build("--packages").stderr, "");
});

test("a registry that cannot be reached is written where the platform shows it, until a build succeeds", (t) => {
  const project = new Project(t);
  project.npm("echo 'npm error code ECONNREFUSED' >&2; exit 1");
  const { status, stderr } = project.build();
  assert.equal(status, 1);
  assert.match(
    stderr,
    /ECONNREFUSED.*The package registry could not be reached.*npm run dashboard tries again/s,
  );
  assert.match(project.read("problem.txt") ?? "", /ECONNREFUSED.*npm config set registry/s);
  project.install(workingBuild);
  assert.equal(project.build().status, 0);
  assert.equal(project.read("problem.txt"), null);
});

test("a build that fails leaves the pages before, and says what the builder said", (t) => {
  const project = new Project(t);
  project.build();
  project.install(`console.error("main.tsx: there is a mistake"); process.exit(1);`);
  project.write("dashboard/src/main.tsx", "second");
  const { status, stderr } = project.build();
  assert.equal(status, 1);
  assert.match(stderr, /there is a mistake/);
  assert.match(project.read("problem.txt") ?? "", /there is a mistake/);
  assert.equal(project.page, "first");
});

test("a build that was killed half-way is done again", (t) => {
  const project = new Project(t);
  project.install(`${workingBuild}\nprocess.kill(process.ppid, "SIGKILL");`);
  assert.equal(project.build().signal, "SIGKILL");
  assert.equal(project.page, null);
  project.install(workingBuild);
  assert.equal(project.build().status, 0);
  assert.deepEqual(readdirSync(join(project.folder, "dashboard/dist")).sort(), ["pages", "stamp"]);
});

test("a build beside a platform ends with it, and that is no problem to show", async (t) => {
  const project = new Project(t);
  project.install(
    `require("node:fs").writeFileSync("../builds", "build\\n"); setInterval(() => {}, 1000);`,
  );
  const platform = spawn("sleep", ["60"], { stdio: "ignore" });
  const beside = project.begin("--beside", String(platform.pid));
  await until("the build is under way", () => project.count("builds") === 1, {
    deadlineMs: 30_000,
  });
  platform.kill("SIGKILL");
  const [code] = (await once(beside, "close")) as [number | null];
  assert.equal(code, 1);
  assert.equal(project.read("problem.txt"), null);
  assert.equal(project.read("lock"), null);
});
