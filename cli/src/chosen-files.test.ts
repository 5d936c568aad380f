// Which files of a folder are deployed: the patterns of its TOML file, ignore files on every level,
// what is never packed, and links.
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { once } from "node:events";
import { spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import { readAppFolder } from "./app-folder.ts";
import { chooseFiles } from "./chosen-files.ts";

function folderWith(t: TestContext, files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "slipway-test-cli-"));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  return folder;
}

async function chosenIn(folder: string): Promise<string[]> {
  const { files } = await chooseFiles(readAppFolder(folder));
  return files.map(({ path }) => path);
}

const toml = (text: string): string => `[cerebrium.deployment]\nname = "a-name"\n${text}`;

test("by default everything is chosen but names at the top with a dot, and what only this machine needs", async (t) => {
  const never = [
    ".git/HEAD",
    "a/.git/x",
    "node_modules/x",
    "a/__pycache__/x",
    ".slipway/link.json",
    "env/pyvenv.cfg",
  ];
  const folder = folderWith(t, {
    ...Object.fromEntries([...never, "env/lib/x.py", ".env", ".cache/x"].map((path) => [path, ""])),
    "main.py": "",
    "a/.hidden/x": "",
    "a/b.py": "",
  });
  assert.deepEqual(await chosenIn(folder), ["a/.hidden/x", "a/b.py", "main.py"]);
});

test("include and exclude choose; the TOML file always belongs to it", async (t) => {
  const files = {
    "main.py": "",
    "src/a.py": "",
    "src/b/c.py": "",
    "data/x.bin": "",
    "notes.md": "",
  };
  const cases: readonly [string, readonly string[]][] = [
    ['include = ["./*", "main.py", "cerebrium.toml"]', ["cerebrium.toml", ...Object.keys(files)]],
    ['include = ["*.py"]', ["cerebrium.toml", "main.py"]],
    ['include = ["main.py", "src/"]', ["cerebrium.toml", "main.py", "src/a.py", "src/b/c.py"]],
    ['include = ["src"]', ["cerebrium.toml", "src/a.py", "src/b/c.py"]],
    [
      'exclude = ["data", "**/b/*", "cerebrium.toml"]',
      ["cerebrium.toml", "main.py", "notes.md", "src/a.py"],
    ],
    ['include = ["**/*.py"]\nexclude = ["src/b"]', ["cerebrium.toml", "main.py", "src/a.py"]],
  ];
  for (const [text, expected] of cases) {
    assert.deepEqual(
      await chosenIn(folderWith(t, { ...files, "cerebrium.toml": toml(text) })),
      expected.toSorted(),
    );
  }
});

test("ignore files count on every level and above, and .slipwayignore takes back what .gitignore says", async (t) => {
  const folder = folderWith(t, {
    ".git/HEAD": "",
    ".gitignore": "*.log\n/app/secret\n",
    "app/main.py": "",
    "app/a.log": "",
    "app/secret": "",
    "app/.gitignore": "weights/\n*.bin\n",
    "app/.slipwayignore": "!model.bin\n",
    "app/weights/w": "",
    "app/model.bin": "",
    "app/other.bin": "",
    "app/sub/.gitignore": "!keep.log\n",
    "app/sub/keep.log": "",
  });
  const { files, leftOut } = await chooseFiles(readAppFolder(join(folder, "app")));
  assert.deepEqual(
    files.map(({ path }) => path),
    ["main.py", "model.bin", "sub/.gitignore", "sub/keep.log"],
  );
  assert.deepEqual(leftOut, ["a.log", "other.bin", "secret", "weights"]);
});

test("a line of an ignore file that would take for ever is refused", async (t) => {
  const usual = {
    ".gitignore": "# *** a * b * c * d ***\n**/*.py[cod]\n**/build/**/*-*.tmp\n",
    "main.py": "",
  };
  assert.deepEqual(await chosenIn(folderWith(t, usual)), ["main.py"]);
  const slow = { ["a".repeat(200)]: "", "main.py": "" };
  for (const line of [`${"*a".repeat(30)}b`, `${"**/a/".repeat(30)}b`])
    await assert.rejects(
      chosenIn(folderWith(t, { ...slow, ".gitignore": line })),
      /which has too many \*/,
    );
});

test("a link is followed within the folder, and refused when it leads out, to nothing, or back into itself", async (t) => {
  const outside = folderWith(t, { "secret.txt": "" });
  const files = { "main.py": "", "data/x": "1", ".git/HEAD": "" };
  const linked = folderWith(t, files);
  symlinkSync("data/x", join(linked, "one"));
  symlinkSync("data", join(linked, "two"));
  assert.deepEqual(await chosenIn(linked), ["data/x", "main.py", "one", "two/x"]);
  for (const [target, why] of [
    [join(outside, "secret.txt"), /^bad is a link to .*secret\.txt, which is outside/],
    ["..", /^bad is a link to .*outside/],
    ["nothing", /^bad is a link to nothing/],
    [".git", /^bad is a link to .*outside/],
    [".", /^bad is a link to a folder that it is in itself/],
  ] as const) {
    const folder = folderWith(t, files);
    symlinkSync(target, join(folder, "bad"));
    await assert.rejects(chosenIn(folder), { message: why });
    writeFileSync(join(folder, "slipway.toml"), toml('exclude = ["bad"]'));
    assert.deepEqual(
      await chosenIn(folder),
      [".git", "data/x", "main.py", "slipway.toml"].slice(1),
    );
  }
});

test("a TOML file that does not choose files well is refused with the line or the pattern", (t) => {
  for (const [text, message] of [
    [
      toml('include = ["[a"]'),
      /^deployment\.include in slipway\.toml has "\[a", which is not a valid pattern/,
    ],
    [toml("include = 3"), /^deployment\.include in slipway\.toml must be a list of patterns/],
    ["[cerebrium", /^slipway\.toml is not valid TOML at line 1/],
  ] as const) {
    assert.throws(() => readAppFolder(folderWith(t, { "slipway.toml": text })), {
      message,
      exitCode: 2,
    });
  }
});

test("a name that is not UTF-8 is refused with the way out, and left out where it is ignored, excluded or not included", async (t) => {
  const latin1 = (folder: string, name: string): Buffer =>
    Buffer.from(join(folder, name), "latin1");
  const folder = folderWith(t, { "main.py": "" });
  writeFileSync(latin1(folder, "bad\xff.txt"), "x");
  await assert.rejects(
    chosenIn(folder),
    /^Refused: "bad\ufffd\.txt" has a name that is not UTF-8\. Rename it, or leave it out\.$/,
  );
  for (const text of ['include = ["*.py"]', 'exclude = ["bad*"]']) {
    writeFileSync(join(folder, "cerebrium.toml"), toml(text));
    assert.deepEqual(await chosenIn(folder), ["cerebrium.toml", "main.py"], text);
  }
  rmSync(join(folder, "cerebrium.toml"));
  writeFileSync(join(folder, ".slipwayignore"), "bad*\n");
  assert.deepEqual((await chooseFiles(readAppFolder(folder))).leftOut, ["bad\ufffd.txt"]);
  mkdirSync(latin1(folder, "d\xff"));
  await assert.rejects(chosenIn(folder), /"d\ufffd" has a name that is not UTF-8/);
});

test("a socket and a file that vanishes meanwhile are left out and named", async (t) => {
  const folder = folderWith(t, { "main.py": "" });
  const server = createServer().listen(join(folder, "a.sock"));
  t.after(() => server.close());
  await once(server, "listening");
  assert.deepEqual((await chooseFiles(readAppFolder(folder))).notFiles, ["a.sock"]);
  const churn =
    "for (;;) { fs.writeFileSync('gone', ''); fs.mkdirSync('away'); fs.rmSync('gone'); fs.rmdirSync('away'); }";
  const child = spawn(process.execPath, ["-e", churn], { cwd: folder, stdio: "ignore" });
  t.after(() => child.kill("SIGKILL"));
  const endMs = performance.now() + 30_000;
  for (const seen = new Set<string>(); !seen.has("gone") && performance.now() < endMs;) {
    const { files, notFiles } = await chooseFiles(readAppFolder(folder));
    assert.ok(files.some(({ path }) => path === "main.py"));
    for (const path of notFiles) seen.add(path);
  }
  child.kill("SIGKILL");
  await once(child, "exit");
});

test("what may not be read is refused by its name, with the way out", async (t) => {
  const folder = folderWith(t, { "main.py": "", "data/x": "", "sub/.gitignore": "" });
  chmodSync(folder, 0o755);
  const asNobody = async (look: () => Promise<unknown>): Promise<unknown> => {
    // Nothing is forbidden to root.
    if (process.geteuid?.() !== 0) return await look();
    process.seteuid?.(65_534);
    try {
      return await look();
    } finally {
      process.seteuid?.(0);
    }
  };
  const refused = async (why: RegExp): Promise<void> =>
    assert.rejects(
      asNobody(() => chosenIn(folder)),
      why,
    );
  chmodSync(join(folder, "data"), 0);
  await refused(
    /^Refused: data cannot be read: you have no permission\. Allow it, or leave it out: exclude = \["data"\]$/,
  );
  chmodSync(join(folder, "data"), 0o755);
  chmodSync(join(folder, "sub/.gitignore"), 0);
  await refused(/sub\/\.gitignore cannot be read: you have no permission/);
  chmodSync(join(folder, "sub/.gitignore"), 0o644);
  assert.deepEqual(await asNobody(() => chosenIn(folder)), ["data/x", "main.py", "sub/.gitignore"]);
  chmodSync(folder, 0);
  await refused(/cannot be read: you have no permission/);
  chmodSync(folder, 0o755);
});
