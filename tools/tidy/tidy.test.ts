// Each rule on small examples: the bad one is found with a hint how to fix it, the good one is not.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { importFindings } from "./imports.ts";
import { glossaryFindings, nameFindings, readUnusedWords } from "./names.ts";
import { scriptFindings } from "./python.ts";
import { queryFindings } from "./queries.ts";
import { reachFindings } from "./reach.ts";
import { shapeFindings } from "./size.ts";
import { parseSources, type Finding } from "./source.ts";
import { testFindings } from "./test-names.ts";

const header = "// A file of the example that says what it is for.\n";

/** Parses texts by path after adding the opening comment to each. */
function sourcesOf(files: Record<string, string>) {
  return parseSources(
    Object.fromEntries(Object.entries(files).map(([path, text]) => [path, header + text])),
  );
}

function one(findings: readonly Finding[]): Finding {
  assert.equal(findings.length, 1, JSON.stringify(findings));
  return findings[0] as Finding;
}

describe("imports", () => {
  const declared = {
    server: { source: ["pg", "zod"], tests: ["pg", "zod", "ws"] },
    tools: { source: [], tests: [] },
  };
  const check = (files: Record<string, string>) => importFindings(sourcesOf(files), declared);

  test("an import against the table names both areas and the way out", () => {
    const found = one(check({ "server/src/store/a.ts": 'import { b } from "#deploy/b.ts";' }));
    assert.equal(found.line, 2);
    assert.match(found.what, /store may import lib, not deploy; declare an interface/);
  });
  test("an import that the table allows is no finding", () => {
    assert.deepEqual(
      check({ "server/src/deploy/a.ts": 'import type { B } from "#store/b.ts";' }),
      [],
    );
  });
  test("a type import counts like any other", () => {
    one(check({ "server/src/lib/a.ts": 'import type { B } from "#store/b.ts";' }));
  });
  test("an import() call counts like any other", () => {
    one(check({ "server/src/lib/a.ts": 'export const b = await import("#store/b.ts");' }));
  });
  test("an area may not import the files that assemble the platform", () => {
    assert.match(
      one(check({ "server/src/api/a.ts": 'import { b } from "#config.ts";' })).what,
      /platform\.ts hand over/,
    );
  });
  test("a path that leads upward is refused with the one to write", () => {
    const found = one(check({ "server/src/store/a.ts": 'import { b } from "../lib/b.ts";' }));
    assert.match(found.what, /write "#lib\/b\.ts"/);
  });
  test("a hash path to a neighbour is refused with the one to write", () => {
    const found = one(check({ "server/src/store/a.ts": 'import { b } from "#store/b.ts";' }));
    assert.match(found.what, /write "\.\/b\.ts"/);
  });
  test("a folder inside an area reaches the area by its hash path", () => {
    assert.deepEqual(
      check({ "server/src/drivers/process/a.ts": 'import { b } from "#drivers/b.ts";' }),
      [],
    );
  });
  test("a re-export is refused", () => {
    assert.match(
      one(check({ "server/src/store/a.ts": 'export { b } from "./b.ts";' })).what,
      /exported again/,
    );
  });
  test("a package that the workspace does not declare is refused", () => {
    assert.match(
      one(check({ "server/src/lib/a.ts": 'import lodash from "lodash/map";' })).what,
      /lodash is not among/,
    );
  });
  test("a package for tests is refused in the product and fine in a test", () => {
    one(check({ "server/src/lib/a.ts": 'import ws from "ws";' }));
    assert.deepEqual(check({ "server/test/a.test.ts": 'import ws from "ws";' }), []);
  });
  test("a package that one area owns is refused in the others", () => {
    assert.match(
      one(check({ "server/src/apps/a.ts": 'import pg from "pg";' })).what,
      /only store uses the package pg/,
    );
    assert.deepEqual(check({ "server/src/store/a.ts": 'import pg from "pg";' }), []);
  });
  test("a built-in module is written with node:", () => {
    assert.match(
      one(check({ "server/src/lib/a.ts": 'import fs from "fs";' })).what,
      /write node:fs/,
    );
  });
  test("the product may not import what is for tests", () => {
    assert.match(
      one(check({ "server/src/store/a.ts": 'import { b } from "#test/support/b.ts";' })).what,
      /for tests only/,
    );
  });
  test("the command line may be imported by tests, not by the product", () => {
    const text = 'import { b } from "@slipway/cli/src/b.ts";';
    assert.match(one(check({ "server/src/store/a.ts": text })).what, /@slipway\/cli is not among/);
    assert.deepEqual(check({ "server/test/a.test.ts": text, "tools/a.ts": text }), []);
  });
  test("a circle of type imports is found once and named in full", () => {
    const found = one(
      check({
        "server/src/lib/a.ts": 'import type { B } from "./b.ts";',
        "server/src/lib/b.ts": 'import { c } from "./c.ts";',
        "server/src/lib/c.ts": 'import type { A } from "./a.ts";',
        "server/src/lib/d.ts": 'import { a } from "./a.ts"; import { b } from "./b.ts";',
      }),
    );
    assert.equal(found.rule, "cycles");
    for (const name of ["a.ts", "b.ts", "c.ts"])
      assert.ok(found.what.includes(`server/src/lib/${name}`), found.what);
  });
});

describe("shape", () => {
  const check = (files: Record<string, string>) => shapeFindings(sourcesOf(files));
  const lines = (count: number): string => "  void 0;\n".repeat(count);

  test("a file of 601 lines is too large and one of 600 is not", () => {
    assert.match(
      one(check({ "server/src/lib/a.ts": "void 0;\n".repeat(600) })).what,
      /has 601 lines, at most 600/,
    );
    assert.deepEqual(check({ "server/src/lib/a.ts": "void 0;\n".repeat(599) }), []);
  });
  test("a function of 121 lines is too large and one of 120 is not", () => {
    const found = one(check({ "server/src/lib/a.ts": `\nfunction f(): void {\n${lines(119)}}\n` }));
    assert.match(found.what, /a function of 121 lines/);
    assert.equal(found.line, 3);
    assert.deepEqual(
      check({ "server/src/lib/a.ts": `function f(): void {\n${lines(118)}}\n` }),
      [],
    );
  });
  test("methods, constructors and arrow functions are measured too", () => {
    const method = `class A {\n  m(): void {\n${lines(119)}  }\n}\n`;
    const constructor = `class A {\n  constructor() {\n${lines(119)}  }\n}\n`;
    const arrow = `const f = (): void => {\n${lines(119)}};\n`;
    for (const text of [method, constructor, arrow]) one(check({ "server/src/lib/a.ts": text }));
  });
  test("a comment that says only whose is found, in tests too", () => {
    const documented = (text: string) => `/** ${text} */\nexport type Id = string;\n`;
    const explained = (text: string) => `// What a file is for.\n\n// ${text}\nconst a = 1;\n`;
    const leaning = ["Of", "its row."].join(" ");
    for (const path of ["server/src/lib/a.ts", "server/src/lib/a.test.ts", "tools/a.ts"]) {
      assert.equal(one(check({ [path]: documented(leaning) })).rule, "comment");
      assert.equal(one(check({ [path]: explained(leaning) })).rule, "comment");
      assert.deepEqual(check({ [path]: documented(`The id ${leaning.toLowerCase()}`) }), []);
    }
  });
  test("several variables that get their values in one statement are found, a list that is taken apart is not", () => {
    const declared = "const [a, b] = [1, 2];\n";
    const assigned = "let a = 1;\nlet b = 2;\n[a, b] = [b, a];\n";
    const typed = "const [a, b] = [1, 2] as number[] as [number, number];\n";
    for (const text of [declared, assigned, typed])
      assert.equal(one(check({ "server/src/lib/a.ts": text })).rule, "pairs");
    const taken = "const [first, ...rest] = [...new Set([1, 2])];\nconst [one] = rest;\n";
    assert.deepEqual(check({ "server/src/lib/a.ts": taken }), []);
  });
  test("a loop without a body is found, one with a body is not", () => {
    for (const body of [";", " {}"])
      assert.equal(one(check({ "server/src/lib/a.ts": `while (next())${body}\n` })).rule, "loops");
    assert.deepEqual(check({ "server/src/lib/a.ts": "while (next()) work();\n" }), []);
  });
  test("parameters that come from one list are found, further ones of a list are not", () => {
    const listed = "const run = (...[a, b]: Parameters<Run>): number => a + b;\n";
    assert.equal(one(check({ "server/src/lib/a.ts": listed })).rule, "parameters");
    const rest = "const run = (...all: number[]): number => all.length;\n";
    assert.deepEqual(check({ "server/src/lib/a.ts": rest }), []);
  });
  test("a comment that is too wide is found, code and directives to other tools are not", () => {
    const long = "word ".repeat(25);
    for (const text of [`// ${long}\n`, `/** ${long} */\nconst a = 1;\n`, `/**\n * ${long}\n */\n`])
      assert.match(one(check({ "server/src/lib/a.ts": text })).what, /columns, at most 100/);
    const code = `const text = "${long}";\n// oxlint-disable-next-line some-rule -- ${long}\n`;
    assert.deepEqual(check({ "server/src/lib/a.ts": code }), []);
  });
  test("a group of tests is no function", () => {
    assert.deepEqual(
      check({ "server/test/a.test.ts": `describe("x", () => {\n${lines(140)}});\n` }),
      [],
    );
  });
  test("a file name that says nothing is refused, also of a test", () => {
    assert.match(one(check({ "server/src/lib/utils.ts": "" })).what, /"utils" says nothing/);
    one(check({ "server/src/lib/helpers.test.ts": "" }));
  });
  test("a file name with capitals is refused", () => {
    assert.match(one(check({ "server/src/lib/appLogs.ts": "" })).what, /lower case with hyphens/);
  });
  test("a file without an opening comment is found", () => {
    assert.equal(
      one(shapeFindings(parseSources({ "server/src/lib/a.ts": "const a = 1;\n" }))).rule,
      "opening",
    );
    assert.deepEqual(
      shapeFindings(parseSources({ "tools/a.mjs": `#!/usr/bin/env node\n${header}` })),
      [],
    );
  });
  test("an export without a doc comment is named", () => {
    assert.match(
      one(check({ "server/src/lib/a.ts": "export const width = 1;\n" })).what,
      /export width needs a doc/,
    );
    assert.match(
      one(check({ "server/src/lib/a.ts": "export async function f() {}\n" })).what,
      /export f needs a doc/,
    );
    one(
      check({ "server/src/lib/a.ts": "/** For the other. */\nconst a = 1;\nexport class B {}\n" }),
    );
  });
  test("a documented export, a plain type and a shape of the contract are fine", () => {
    assert.deepEqual(check({ "contract/src/a.ts": "export const shape = 1;\n" }), []);
    assert.deepEqual(
      check({
        "server/src/lib/a.ts": "/** How wide. */\nexport const width = 1;\nexport type A = 1;\n",
      }),
      [],
    );
  });
});

describe("queries", () => {
  const database = [{ path: "server/src/store/database.ts", reason: "runs what stores write" }];
  const check = (files: Record<string, string>) => queryFindings(sourcesOf(files), database);

  for (const text of [
    'await db.selectFrom("apps").select("id").execute();',
    'import { sql } from "kysely";',
    'import { sql as text, type RawBuilder } from "kysely";',
    'import * as kysely from "kysely";',
    'import { changeRows, type Db } from "#store/database.ts";',
    'await client.query("select id from apps");',
    "await write(`\n  insert into apps (id) values (${id})`);",
    'const text = "update apps as app set name = $1";',
    'const text = "DELETE FROM apps";',
    "const text = `with recursive old (id) as (${chosen}) select 1`;",
    'const text = "select 1";',
    'const text = "select pg_advisory_xact_lock($1)";',
    'const text = "lock table apps";',
    'const text = "id = $1 for no key update skip locked";',
  ]) {
    test(`a query beside other code of the server is refused: ${text}`, () => {
      const found = one(check({ "server/src/apps/a.ts": text }));
      assert.equal(found.rule, "queries");
      assert.match(found.what, /\*-store\.ts/);
    });
    test(`a store, files of the list, and tests have it: ${text}`, () => {
      const files = {
        "server/src/apps/app-store.ts": text,
        "server/src/store/database.ts": text,
        "server/src/apps/a.test.ts": text,
        "server/test/a.test.ts": text,
      };
      assert.deepEqual(check(files), []);
    });
  }
  for (const text of [
    'import type { RawBuilder } from "kysely";',
    'import { type RawBuilder } from "kysely";',
    'import type { Db } from "#store/database.ts";',
    "const what = /could not select device driver from here/;",
    'const text = "select an app from the list, or update it";',
    'throw new Fault("busy", "Delete the app from the project, then set it again.");',
    "const text = `with ${count} apps as before`;",
  ]) {
    test(`what is no query is no finding: ${text}`, () => {
      assert.deepEqual(check({ "server/src/apps/a.ts": text }), []);
    });
  }
  test("another file of the area of the database is not excepted", () => {
    one(check({ "server/src/store/a.ts": 'await client.query("select id from apps");' }));
  });
  test("an exception for a file without queries is a finding", () => {
    const found = one(check({ "server/src/store/database.ts": "export type A = 1;" }));
    assert.match(found.what, /store\/database\.ts is not needed/);
  });
});

describe("reach", () => {
  const none = { clock: [], environment: [] };
  const check = (files: Record<string, string>) => reachFindings(sourcesOf(files), none);

  for (const text of [
    "Date.now();",
    "new Date();",
    "performance.now();",
    "setTimeout(f, 1);",
    "setInterval(f, 1);",
    "Math.random();",
    "const random = Math.random;",
    'import { setTimeout } from "node:timers/promises";',
  ]) {
    test(`${text.split("(")[0]} in the product is refused`, () => {
      assert.equal(one(check({ "server/src/store/a.ts": text })).rule, "clock");
    });
  }
  test("a date made from a value and a socket's own timeout are fine", () => {
    assert.deepEqual(
      check({
        "server/src/store/a.ts": "new Date(5); socket.setTimeout(5); AbortSignal.timeout(5);",
      }),
      [],
    );
  });
  test("the environment is read by nobody who has no exception", () => {
    const found = one(
      check({ "server/src/store/a.ts": "const a = process.env.HOME; const b = process.envelope;" }),
    );
    assert.equal(found.rule, "environment");
  });
  test("an exception covers its file and its folder, and one that is idle is found", () => {
    const sources = sourcesOf({
      "server/src/lib/clock.ts": "Date.now();",
      "server/src/store/a.ts": "f();",
    });
    const reason = "an example";
    const allowed = { clock: [{ path: "server/src/lib/", reason }], environment: [] };
    assert.deepEqual(reachFindings(sources, allowed), []);
    const idle = {
      clock: [...allowed.clock, { path: "server/src/store/a.ts", reason }],
      environment: [],
    };
    assert.match(one(reachFindings(sources, idle)).what, /not needed any more/);
  });
  test("a test that sleeps is found", () => {
    assert.equal(one(check({ "server/test/a.test.ts": "setTimeout(f, 10);" })).rule, "sleep");
    one(check({ "server/test/a.test.ts": 'import { setTimeout } from "node:timers/promises";' }));
  });
});

describe("tests", () => {
  const check = (text: string) => testFindings(sourcesOf({ "server/test/a.test.ts": text }));

  test("a name that is no promise is refused", () => {
    for (const name of ["works", "should refuse the next call", "line full"]) {
      assert.match(one(check(`test("${name}", () => {});`)).what, /is no promise/);
    }
    assert.deepEqual(check('test("a full line refuses the next call", () => {});'), []);
  });
  test("two tests of one name in a file are refused", () => {
    const text = 'test("a full line refuses", () => {});\n'.repeat(2);
    assert.match(one(check(text)).what, /two tests/);
  });
  test("a test that runs alone or is skipped in silence is refused", () => {
    one(check('test.only("a full line refuses", () => {});'));
    one(check('test.skip("a full line refuses", () => {});'));
    assert.match(
      one(check('test("a full line refuses", { skip: true }, () => {});')).what,
      /write skip:/,
    );
    assert.deepEqual(check('test("a full line refuses", { skip: noPython }, () => {});'), []);
  });
  test("a test file without a test is found", () => {
    assert.match(one(check("const a = 1;")).what, /holds no test/);
    assert.deepEqual(
      check('import { conformance } from "#drivers/conformance.ts"; conformance();'),
      [],
    );
  });
});

describe("scripts", () => {
  const statement = "    pass\n";

  test("a Python function of 121 lines is too large, and its closing bracket does not end it early", () => {
    const text = `"""What it is for."""\n\nasync def f(\n    a,\n) -> None:\n${statement.repeat(118)}\n\nx = 1\n`;
    assert.match(one(scriptFindings({ "a.py": text })).what, /f has 121 lines/);
    assert.deepEqual(scriptFindings({ "a.py": text.replace(statement, "") }), []);
  });
  test("a Python file or a migration that does not say what it is for is found", () => {
    assert.equal(one(scriptFindings({ "a.py": "x = 1\n" })).rule, "opening");
    assert.equal(one(scriptFindings({ "a.sql": "select 1;\n" })).rule, "opening");
    assert.deepEqual(scriptFindings({ "a.sql": "-- What it is for.\n", "__init__.py": "" }), []);
  });
});

describe("names", () => {
  const glossary = [
    "| word | meaning |",
    "| **run**, **attempt** | … |",
    "## Words that are not used",
    "| not | but |",
    "|---|---|",
    "| desk | use cases |",
  ].join("\n");
  const check = (files: Record<string, string>) =>
    nameFindings(sourcesOf(files), readUnusedWords(glossary));

  test("a name that two files export is found at the second", () => {
    const files = {
      "server/src/a/a.ts": "export type Plan = 1;",
      "server/src/b/b.ts": "export class Plan {}",
    };
    const found = one(check(files));
    assert.equal(found.path, "server/src/b/b.ts");
    assert.match(found.what, /Plan is exported by server\/src\/a\/a\.ts too/);
  });
  test("a name of the command line may be one of the server's too", () => {
    assert.deepEqual(
      check({ "server/src/a/a.ts": "export type P = 1;", "cli/src/b.ts": "export type P = 1;" }),
      [],
    );
  });
  test("a word that is not used is found in names of files and exports, also as a plural", () => {
    for (const [path, text] of [
      ["server/src/a/token-desk.ts", "export const a = 1;"],
      ["server/src/a/a.ts", "export class TokenDesk {}"],
      ["cli/src/a.ts", "export function desks() {}"],
    ] as const) {
      assert.match(
        one(check({ [path]: text })).what,
        /has the word desk, which is not used; write use cases/,
        path,
      );
    }
    assert.deepEqual(check({ "server/src/a/desktop.ts": "export const desktop = 1;" }), []);
  });
  test("a word that the glossary defines twice is found", () => {
    assert.deepEqual(glossaryFindings(glossary), []);
    const again = glossary.replace("## Words", "| **run** | … |\n## Words");
    assert.match(one(glossaryFindings(again)).what, /run is defined twice/);
  });
});
