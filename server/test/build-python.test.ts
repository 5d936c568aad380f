// Finding the Pythons of a machine: real interpreters behind links, shims and broken scripts.
import assert from "node:assert/strict";
import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, test, type TestContext } from "node:test";
import type { Python } from "#drivers/process/python-choice.ts";
import { PythonFinder } from "#drivers/process/python-find.ts";
import { toolEnvironment } from "#test/support/build-queue.ts";
import { temporaryFolder } from "#test/support/folder.ts";

let real: Python | undefined;

before(async () => {
  [real] = await new PythonFinder({ environment: toolEnvironment }).all();
});

/** A machine with one folder on its PATH and nothing else but the system's shell. */
async function machine(t: TestContext): Promise<{
  python: Python;
  folder: string;
  finder: PythonFinder;
  script(name: string, text: string): Promise<void>;
}> {
  assert.ok(real, "a Python is installed here");
  const folder = temporaryFolder(t, "pythons");
  await mkdir(join(folder, "bin"));
  const finder = new PythonFinder({
    environment: { PATH: join(folder, "bin"), PYENV_ROOT: join(folder, "pyenv") },
  });
  const script = async (name: string, text: string): Promise<void> => {
    await writeFile(join(folder, "bin", name), `#!/bin/sh\n${text}\n`);
    await chmod(join(folder, "bin", name), 0o755);
  };
  return { python: real, folder, finder, script };
}

test("behind a shim, a link and a virtual environment the interpreter itself is found, once", async (t) => {
  const { python, folder, finder, script } = await machine(t);
  await script(`python${python.version}`, `exec ${python.path} "$@"`);
  await symlink(python.path, join(folder, "bin/python3"));
  assert.deepEqual(await finder.all(), [python]);
  assert.deepEqual(await finder.ofVersion(python.version), [python]);
});

test("what does not start, or is no Python 3, is passed over", async (t) => {
  const { python, finder, script } = await machine(t);
  await script("python3.10", "echo 'pyenv: python3.10: command not found' >&2; exit 127");
  await script("python3.11", "echo hello");
  await script(
    "python3.12",
    'echo \'{"path": "/bin/sh", "version": [2, 7, 18], "venv": true, "pip": true}\'',
  );
  assert.deepEqual(await finder.all(), []);
  assert.deepEqual(await finder.ofVersion("3.10"), []);
  await script("python3.10", `exec ${python.path} "$@"`);
  assert.deepEqual(await finder.all(), [python], "one that was mended is found without a restart");
});

test("a Python that gets what it lacked is seen to have it without a restart", async (t) => {
  const { folder, finder, script } = await machine(t);
  const said = (hasPip: boolean): string =>
    JSON.stringify({
      path: join(folder, "bin/python3.10"),
      version: [3, 10, 1],
      venv: true,
      pip: hasPip,
    });
  await script("python3.10", `echo '${said(false)}'`);
  assert.deepEqual(
    (await finder.all()).map(({ hasPip }) => hasPip),
    [false],
  );
  await script("python3.10", `echo '${said(true)}'`);
  assert.deepEqual(
    (await finder.all()).map(({ hasPip }) => hasPip),
    [true],
  );
});

test("a program whose name says another version than it is counts as what it is", async (t) => {
  const { python, finder, script } = await machine(t);
  await script("python3.99", `exec ${python.path} "$@"`);
  assert.deepEqual(await finder.ofVersion("3.99"), []);
  assert.deepEqual(await finder.all(), [python]);
});

test("the versions of pyenv are found without its shims", async (t) => {
  const { python, folder, finder } = await machine(t);
  const bin = join(folder, "pyenv/versions/x/bin");
  await mkdir(bin, { recursive: true });
  await symlink(python.path, join(bin, `python${python.version}`));
  assert.deepEqual(await finder.ofVersion(python.version), [python]);
});
