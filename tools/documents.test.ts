// Checks documents that list things against the things themselves: dependencies, decisions, tables,
// commands, and links between documents.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { projectDir, readManifest, readTree, packageFolders, type Manifest } from "#tidy/tree.ts";

const read = (path: string): string => readFileSync(join(projectDir, path), "utf8");

/** Documents about the project as it is, by path. The changelog also names what was removed. */
function presentDocuments(): [string, string][] {
  const all = Object.entries(readTree("{*.md,docs/**/*.md,examples/**/*.md}"));
  return all.filter(([path]) => path !== "CHANGELOG.md");
}

/** The packages in the tables of docs/dependencies.md by heading, in order. */
function listedPackages(): Record<string, string[]> {
  const listed: Record<string, string[]> = {};
  for (const section of read("docs/dependencies.md").split(/^## /m).slice(1)) {
    const heading = section.split("\n")[0] ?? "";
    listed[heading] = [...section.matchAll(/^\| `([^`]+)` \| \S.* \| \S.* \|$/gm)]
      .map(([, name = ""]) => name)
      .sort();
  }
  return listed;
}

/** The packages in a package.json that are not our own workspaces. */
function wantedPackages({
  dependencies,
  devDependencies,
  optionalDependencies,
}: Manifest): string[] {
  const names = Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies });
  return names.filter((name) => !name.startsWith("@slipway/")).sort();
}

test("docs/dependencies.md says of each package what it saves, and names no other", () => {
  const wanted: Record<string, string[]> = { "The project": wantedPackages(readManifest("")) };
  for (const workspace of packageFolders) {
    const names = wantedPackages(readManifest(workspace));
    if (names.length > 0)
      wanted[`${workspace.slice(0, 1).toUpperCase()}${workspace.slice(1)}`] = names;
  }
  assert.deepEqual(listedPackages(), wanted);
});

test("versions of packages are exact", () => {
  for (const workspace of ["", ...packageFolders]) {
    const { dependencies, devDependencies, optionalDependencies } = readManifest(workspace);
    for (const [name, version] of Object.entries({
      ...dependencies,
      ...devDependencies,
      ...optionalDependencies,
    })) {
      assert.match(version, /^\d+\.\d+\.\d+(-[\w.]+)?$/, `${name} in ${workspace}/package.json`);
    }
  }
});

test("every decision is in the list of decisions, in order and under its title, and has at most 300 words", () => {
  const listed = [
    ...read("docs/decisions/README.md").matchAll(/^\| \[(\d+)\]\(([^)]+)\) \| (.+) \|$/gm),
  ];
  const there = Object.entries(readTree("docs/decisions/0*.md"));
  assert.deepEqual(
    listed.map(([, number, file, title]) => [`docs/decisions/${file}`, `# ${number}. ${title}`]),
    there.map(([path, text]) => [path, text.split("\n")[0]]),
  );
  for (const [path, text] of there) {
    const words = text.split(/\s+/).filter((word) => word !== "").length;
    assert.ok(words <= 300, `${path} has ${words} words, at most 300`);
  }
});

test("docs/tables.md has one row for each table of schema.sql, and names only files that are there", () => {
  const text = read("docs/tables.md");
  const listed = [...text.matchAll(/^\| `(\w+)` \| \S.* \| \S.* \| \S.* \|$/gm)].map(
    ([, name = ""]) => name,
  );
  const schema = read("server/src/store/schema.sql");
  const there = [...schema.matchAll(/^create table (\w+) \($/gm)].map(([, name = ""]) => name);
  assert.ok(there.length > 60);
  assert.deepEqual(listed.toSorted(), there.toSorted());
  const files = [...text.matchAll(/`(?!server\/)([a-z]+\/[a-z/-]+)`/g)].map(
    ([, file = ""]) => `server/src/${file}.ts`,
  );
  assert.ok(files.length > 100);
  for (const file of new Set(files))
    assert.ok(existsSync(join(projectDir, file)), `docs/tables.md names ${file}`);
});

test("links between documents lead somewhere", () => {
  for (const [path, text] of Object.entries(
    readTree("{*.md,docs/**/*.md,changes/*.md,examples/**/*.md}"),
  )) {
    for (const [, target = ""] of text.matchAll(/\]\(([^)\s#]+)[^)]*\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      assert.ok(
        existsSync(join(projectDir, dirname(path), target)),
        `${path} links to ${target}, which is not there`,
      );
    }
  }
});

test("every script that a document tells to run is there", () => {
  const { scripts } = JSON.parse(read("package.json")) as {
    readonly scripts: Readonly<Record<string, string>>;
  };
  const named = presentDocuments().flatMap(([path, text]) =>
    [...text.matchAll(/\bnpm (?:run ([\w:-]+)|(start|test)\b)/g)].map((match) => ({
      path,
      name: match[1] ?? match[2],
    })),
  );
  assert.ok(named.length > 4);
  for (const { path, name = "" } of named)
    assert.ok(Object.hasOwn(scripts, name), `${path} names npm run ${name}`);
});

test("every file of the project that a document names is there", () => {
  const form =
    /(?<![\w/.-])(?:cli|client|contract|dashboard|docs|examples|packaging|runtimes|server|tools)\/[\w./-]+\.(?:json|md|mjs|py|sh|sql|toml|tsx?)\b/g;
  const named = presentDocuments().flatMap(([path, text]) =>
    Array.from(text.matchAll(form), ([file]) => ({ path, file })),
  );
  assert.ok(named.length > 50);
  for (const { path, file } of named)
    assert.ok(existsSync(join(projectDir, file)), `${path} names ${file}`);
});

test("the guides start the platform in one way", () => {
  const others = Object.entries(readTree("docs/guides/*.md")).flatMap(([path, text]) =>
    Array.from(text.matchAll(/^```sh\n[^]*?^```|^```bash\n[^]*?^```/gm), ([block]) => block)
      .filter((block) => /\bnpm (?:start|run)\b/.test(block))
      .map((block) => `${path}: ${block}`),
  );
  assert.deepEqual(others, [], "use slipway up and slipway down");
});

test("no command in a document waits without an end", () => {
  const endless = presentDocuments().flatMap(([path, text]) =>
    [...text.matchAll(/^```(?:bash|sh|console)\n([^]*?)^```/gm)].flatMap(([, commands = ""]) =>
      commands
        .split("\n")
        .filter(
          (line) =>
            /(?:^|[;&|({]|\b(?:then|do|else))\s*(?:until|while)\b/.test(line) ||
            /\btail\b[^|;&]* -[fF]\b/.test(line),
        )
        .filter((line) => !/\btimeout \d/.test(line))
        .map((line) => `${path}: ${line.trim()}`),
    ),
  );
  const advice =
    "use slipway deploy, builds logs -f or runs result --wait, wait_for of docs/guides/setup.sh, or for … in $(seq …)";
  assert.deepEqual(endless, [], advice);
});

test("what the guides wait with ends, and says what it waited for and what came last", () => {
  const script = `
    cd "$1"
    sleep() { SECONDS=$((SECONDS + 30)); }
    . docs/guides/setup.sh 2> /dev/null
    answer() { echo 'the state is "building"'; }
    wait_for '"building"' answer
    wait_for '"ready"' answer
  `;
  const ended = spawnSync("bash", ["-c", script, "bash", projectDir], {
    encoding: "utf8",
    timeout: 60_000,
  });
  assert.deepEqual([ended.status, ended.stdout], [1, '"building"\n']);
  const said =
    'Two minutes went by without "ready". The last answer was: the state is "building"\n';
  assert.equal(ended.stderr, said);
});

/** The rows of the table in docs/guides/isolation.md for the gates in each file of the server. */
const rowsOfGates: Readonly<Record<string, readonly string[]>> = {
  "accounts/passwords": ["passwords that are hashed"],
  "acme/certificate-keeper": ["requests of certificates"],
  "api/audit-export": ["exports of audit logs"],
  "api/event-stream": ["followed logs of apps and builds, followed roll-outs"],
  "api/exec": ["commands in replicas"],
  "api/file-runs": ["files that run once"],
  "api/git-hooks": ["push events of more than 1 MiB"],
  "api/logs": ["searches in logs"],
  "api/repositories": ["inspections of repositories"],
  "api/runs": [
    "results, lists of successful runs",
    "results, lists of successful runs",
    "actions on dead runs",
  ],
  "api/uploads": ["downloads of uploaded code"],
  "api/volumes": ["downloads from volumes", "lists of files"],
  "deploy/uploads": ["uploads of code"],
  "domains/domain-lookup": ["records of domains"],
  "drivers/removed-folders": ["removal of files from storage"],
  "lib/outward-names": ["names that the machine's own resolver looks up"],
  "lib/outward-request": ["outgoing requests"],
  "proxy/answer-decoder": ["compressed answers that are decoded"],
  "pushes/branch-poll": ["polls of branches"],
  "runs/answer-memory": ["long answers of async runs"],
  "runs/enqueue": [
    "async calls with bodies above 64 kB, or of unknown length",
    "async calls with an `Idempotency-Key`",
  ],
  "volumes/volume-space": ["sizes of volumes"],
  "volumes/volume-uploads": ["parts of files, for volumes"],
};

test("the table of gates in docs/guides/isolation.md has a row for each gate of the server", () => {
  const found: Record<string, number> = {};
  for (const [path, source] of Object.entries(readTree("server/src/**/*.ts"))) {
    const count = [...source.matchAll(/\bnew (?:Owner)?Gate\(/g)].length;
    const isShared = path.endsWith(".test.ts") || path.endsWith("/owner-gate.ts");
    if (count > 0 && !isShared) found[path.slice("server/src/".length, -".ts".length)] = count;
  }
  const counts = Object.entries(rowsOfGates).map(([file, rows]) => [file, rows.length]);
  assert.deepEqual(found, Object.fromEntries(counts));
  const [, section = ""] = read("docs/guides/isolation.md").split("## Queues that strangers could");
  const titles = new Set([...section.matchAll(/^\| ([^|]+) \|/gm)].map(([, title]) => title));
  for (const row of Object.values(rowsOfGates).flat()) assert.ok(titles.has(row), row);
});

test("only files with a gate keep connections of callers for themselves", () => {
  const found = Object.entries(readTree("server/src/api/*.ts"))
    .filter(([path]) => !path.endsWith(".test.ts"))
    .filter(([, source]) => /\b(?:takenOver|hijack)\(/.test(source))
    .map(([path]) => path.slice("server/src/".length, -".ts".length));
  // It sends the files for which two others with gates are asked.
  const withoutGate = found.filter((file) => !(file in rowsOfGates));
  assert.deepEqual(withoutGate, ["api/file-answer"]);
  for (const [path, source] of Object.entries(readTree("server/src/api/*.ts")))
    if (source.includes('from "./file-answer.ts"'))
      assert.ok(path.slice("server/src/".length, -".ts".length) in rowsOfGates, path);
});

/** How compose.yaml says what an option of `docker run` says. */
const composeForms: Readonly<Record<string, (value: string) => string | RegExp>> = {
  detach: () => "",
  name: () => "",
  restart: (value) => `restart: ${value}`,
  "stop-timeout": (value) => `stop_grace_period: ${Number(value) / 60}m`,
  "read-only": () => "read_only: true",
  tmpfs: (value) => `tmpfs: [${value}]`,
  volume: (value) => `- ${value}`,
  network: (value) => `network_mode: ${value}`,
  pid: (value) => `pid: ${value}`,
  cgroupns: (value) => `cgroup: ${value}`,
  "cap-add": (value) => new RegExp(`cap_add: \\[.*\\b${value}\\b`),
  "security-opt": (value) => `security_opt: ["${value}"]`,
  env: (value) => value.replace(/=(.*)/, ': "$1"'),
};

test("compose.yaml gives the platform what the guide's docker run gives it", () => {
  const [, run = ""] =
    /^(docker run [\s\S]*?)slipway:\d/m.exec(read("docs/guides/install.md")) ?? [];
  const platform = read("packaging/compose.yaml").split(/^ {2}(?=\w)/m)[1] ?? "";
  const options = [...run.matchAll(/--([a-z-]+)(?: (?!--)([^\s\\]+))?/g)];
  assert.ok(options.length > 10, run);
  for (const [text, name = "", value = ""] of options) {
    const form = composeForms[name]?.(value);
    assert.ok(form !== undefined, `${text} is not known here`);
    assert.ok(
      typeof form === "string" ? platform.includes(form) : form.test(platform),
      `${text} has no ${String(form)} in packaging/compose.yaml`,
    );
  }
});
