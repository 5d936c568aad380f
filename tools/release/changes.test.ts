// Files of changes/ and the section of the changelog that is made of them.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import {
  changeAreas,
  changelogSection,
  changelogWith,
  readChange,
  readChanges,
} from "./changes.ts";
import { projectDir } from "#tidy/tree.ts";

test("a section groups entries by area and kind, with what users have to do first of all", () => {
  const entries = readChanges({
    "changes/a.md":
      "area: storage\n\n**Fixed** Downloads\nend.\n\n**Before you upgrade** Set `A`,\nthen restart.\n\n**Added** Folders.\n",
    "changes/b.md":
      "area: calls and runs\n\n**Removed** The old way.\n\n**Added** Async runs: see [the guide](../docs/x.md).\n",
    "changes/c.md": "area: storage\n\n**Added** Limits.\n",
  });
  const section = changelogSection("0.2.0", "2026-11-27", entries);
  assert.equal(
    section,
    `## 0.2.0 (2026-11-27)

### Before you upgrade

- Set \`A\`,
  then restart.

### Calls and runs

#### Added

- Async runs: see [the guide](docs/x.md).

#### Removed

- The old way.

### Storage

#### Added

- Folders.
- Limits.

#### Fixed

- Downloads
  end.`,
  );
  assert.equal(
    changelogWith("# Changelog\n\n## 0.1.0\n\nFirst.\n", "## 0.2.0"),
    "# Changelog\n\n## 0.2.0\n\n## 0.1.0\n\nFirst.\n",
  );
  assert.equal(changelogWith("# Changelog\n", "## 0.1.0"), "# Changelog\n\n## 0.1.0\n");
});

test("a file without a known area, or with an entry of another form, is refused by name", () => {
  const cases: readonly [string, RegExp][] = [
    [
      "**Added** Folders.",
      /changes\/x\.md begins with "\*\*Added\*\* Folders\."; .*"area: dashboard"/,
    ],
    ["area: toString\n\n**Added** Folders.", /begins with "area: toString"/],
    ["area: storage\n**Added** Folders.", /its first paragraph must be one of/],
    ["area: storage", /has no entry/],
    [
      "area: storage\n\nFolders.",
      /"Folders\." begins with none of \*\*Before you upgrade\*\*, \*\*Added\*\*/,
    ],
    ["area: storage\n\n**Added**: Folders.", /begins with none of/],
    ["area: storage\n\n**Added** folders.", /does not begin with a capital letter/],
    ["area: storage\n\n**Added** Folders", /does not end with a full stop/],
    [
      "area: storage\n\n**Added** Folders.\n**Fixed** Files.",
      /holds \*\*Fixed\*\*, which must begin a paragraph/,
    ],
    [`area: storage\n\n**Added** ${"F".repeat(400)}.`, /has 401 characters, at most 400/],
  ];
  for (const [text, message] of cases)
    assert.throws(() => readChange("changes/x.md", text), { message });
});

test("changes/README.md lists the areas", () => {
  const listed = readFileSync(join(projectDir, "changes/README.md"), "utf8").matchAll(
    /^- `area: (.+)`/gm,
  );
  assert.deepEqual(
    Array.from(listed, ([, area]) => area),
    Object.keys(changeAreas),
  );
});
