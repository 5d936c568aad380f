// Packages of pyproject.toml and uv.lock, and what is said of the files of other tools.
import assert from "node:assert/strict";
import { test } from "node:test";
import { foreignWarnings, pythonProject } from "./python-project.ts";

function filesOf(files: Readonly<Record<string, string>>) {
  return {
    readText: (path: string) => files[path] ?? null,
    has: (path: string) => files[path] !== undefined,
    names: () => Object.keys(files),
    pythonProblem: () => null,
  };
}

/** Why the files are no project that can be installed; empty: they are one. */
function refusalOf(files: Readonly<Record<string, string>>): string {
  const read = pythonProject(filesOf(files), []);
  return read.ok ? "" : read.reason;
}

const listed = `[project]
name = "shop"
dependencies = ["idna"]
[project.optional-dependencies]
gpu = ["torch"]
[dependency-groups]
dev = ["pytest"]
Serve_All = ["uvicorn"]
`;

test("a project is installed when it lists packages or is locked; its groups are those that the settings name", () => {
  const project = (files: Readonly<Record<string, string>>, groups: readonly string[] = []) => {
    const read = pythonProject(filesOf(files), groups);
    if (!read.ok) return read.reason;
    const { digest: _, ...rest } = read.value ?? { digest: "" };
    return read.value === null ? null : rest;
  };
  const plain = { isLocked: false, groups: [], extras: [], needsCode: false };
  assert.deepEqual(project({ "pyproject.toml": listed }), plain);
  assert.deepEqual(project({ "pyproject.toml": listed, "uv.lock": "version = 1" }), {
    ...plain,
    isLocked: true,
  });
  const chosen = project({ "pyproject.toml": listed }, ["gpu", "serve-all"]);
  assert.deepEqual(chosen, { ...plain, groups: ["Serve_All"], extras: ["gpu"] });
  assert.equal(
    project({ "pyproject.toml": listed }, ["gqu"]),
    "dependencies.groups names gqu, which is no group of pyproject.toml; it has dev, Serve_All, gpu.",
  );
  assert.equal(project({}), null);
  assert.equal(project({ "pyproject.toml": "[tool.ruff]\nline-length = 100\n" }), null);
  assert.equal(project({ "pyproject.toml": '[project]\nname = "shop"\n' }), null);
  assert.match(refusalOf({ "uv.lock": "version = 1" }), /no pyproject\.toml beside it/);
  assert.match(
    refusalOf({ "pyproject.toml": "[project\n" }),
    /^pyproject\.toml is not valid TOML at line 1/,
  );
});

test("packages that are files of the app are made from them", () => {
  const needsCode = (files: Readonly<Record<string, string>>): boolean => {
    const read = pythonProject(filesOf(files), []);
    return read.ok && read.value?.needsCode === true;
  };
  const from = (source: string): string => `${listed}[tool.uv.sources]\nidna = ${source}\n`;
  assert.equal(needsCode({ "pyproject.toml": from('{ path = "libs/idna" }') }), true);
  assert.equal(needsCode({ "pyproject.toml": from("[{ workspace = true }]") }), true);
  assert.equal(
    needsCode({ "pyproject.toml": from('{ git = "https://github.com/kjd/idna" }') }),
    false,
  );
  assert.equal(needsCode({ "pyproject.toml": '[project]\ndynamic = ["dependencies"]\n' }), true);
  const locked = (source: string) => ({
    "pyproject.toml": listed,
    "uv.lock": `[[package]]\nsource = ${source}\n`,
  });
  assert.equal(needsCode(locked('{ virtual = "." }')), false);
  assert.equal(needsCode(locked('{ editable = "." }')), false);
  assert.equal(needsCode(locked('{ editable = "libs/idna" }')), true);
  assert.equal(needsCode(locked('{ registry = "https://pypi.org/simple" }')), false);
});

test("other tools' lists are named with what makes them installable", () => {
  const poetry = '[tool.poetry.dependencies]\npython = "^3.11"\nidna = "*"\n';
  const cases: readonly (readonly [Readonly<Record<string, string>>, readonly RegExp[]])[] = [
    [{}, []],
    [{ "pyproject.toml": "[tool.ruff]\n" }, []],
    [
      { Pipfile: "" },
      [/^Pipfile is not installed: make a requirements\.txt of it: pipenv requirements > /],
    ],
    [{ "pyproject.toml": poetry }, [/^pyproject\.toml is not installed: .* poetry export/]],
    [
      { "pyproject.toml": poetry, "poetry.lock": "" },
      [/^poetry\.lock is not installed: .* poetry export/],
    ],
    [
      { "setup.py": "" },
      [/^setup\.py is not installed: write a requirements\.txt with the line "\."/],
    ],
    [{ "environment.yml": "" }, [/^environment\.yml .*\[cerebrium\.dependencies\.conda\]/]],
  ];
  for (const [files, expected] of cases) {
    const warnings = foreignWarnings(filesOf(files));
    assert.equal(warnings.length, expected.length, warnings.join("\n"));
    for (const [index, form] of expected.entries()) assert.match(warnings[index] ?? "", form);
  }
});
