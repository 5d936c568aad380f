// Tables on a terminal and for programs.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Machine } from "./machine.ts";
import { moment, printFields, printTable, state, type Cell } from "./table.ts";

function printed(columns: number | null, print: (machine: Machine) => void): string[] {
  const lines: string[] = [];
  const unused = (): never => assert.fail("nothing else is used");
  print({
    environment: {},
    homeFolder: "",
    isInteractive: false,
    columns,
    version: "",
    system: "",
    write: unused,
    tell: unused,
    endOnInterrupt: unused,
    print: (text) => void lines.push(text),
    paint: (paint, text) => `<${paint}>${text}</>`,
  });
  return lines;
}

const heads = ["NAME", "COUNT", "REASON"];
const rows: Cell[][] = [
  ["one", 1, "short"],
  ["日本語", 1000, "because ".repeat(8).trim()],
  [null, undefined, "evil\u001b[2J\u202e"],
];

test("numbers are right-aligned, wide characters count twice, and control characters are gone", () => {
  assert.deepEqual(
    printed(null, (machine) => printTable(machine, heads, rows)).map((line) =>
      line.replaceAll(/<\w+>|<\/>/g, ""),
    ),
    [
      "NAME    COUNT  REASON",
      "one         1  short",
      `日本語   1000  ${"because ".repeat(8).trim()}`,
      "-           -  evil[2J",
    ],
  );
});

test("on a terminal the widest column is cut, and no line is wider than the terminal", () => {
  const lines = printed(30, (machine) => printTable(machine, heads, rows));
  assert.deepEqual(lines[2], "日本語   1000  because becaus…");
  for (const columns of [12, 20]) {
    for (const line of printed(columns, (machine) =>
      printTable(machine, ["A", "B"], [["x".repeat(50), "y".repeat(9)]]),
    )) {
      assert.ok(line.replaceAll(/<\w+>|<\/>/g, "").length <= Math.max(columns, 4), line);
    }
  }
});

test("a table that is too wide for the terminal becomes a field a line, without what is empty", () => {
  const ids = [1, 2].map((end) => `0197f3a2-5c1d-7c55-9f5e-0a9f3a1d2b3${end}`);
  const replicas = [1, 2].map((end) => `hello-0a9f3a1d2${end}`);
  const cells = ids.map((id, index) => [
    id,
    "a long reason to wait",
    "",
    null,
    state("live"),
    replicas[index],
  ]);
  const heads = ["RUN", "REASON", "A", "B", "STATE", "REPLICA"];
  for (const columns of [1, 40, 66]) {
    assert.deepEqual(
      printed(columns, (machine) => printTable(machine, heads, cells)),
      ids.flatMap((id, index) => [
        ...(index === 0 ? [] : [""]),
        `<dim>RUN    </>  ${id}`,
        "<dim>REASON </>  a long reason to wait",
        "<dim>STATE  </>  <green>live</>",
        `<dim>REPLICA</>  ${replicas[index]}`,
      ]),
    );
  }
  const [, line] = printed(80, (machine) => printTable(machine, heads, cells));
  assert.match(line ?? "", new RegExp(`^${ids[0]}  a lo.* ${replicas[0]}$`));
});

test("a table whose cells would be cut to a few letters becomes a field a line, and cells name commands", () => {
  const cells = [
    ["token.read", "bootstrap", "success", "Fix it and build it again (POST …/apps/{app}/builds)."],
  ];
  assert.deepEqual(
    printed(22, (machine) => printTable(machine, ["ACTION", "BY", "OUTCOME", "REASON"], cells)),
    [
      "<dim>ACTION </>  token.read",
      "<dim>BY     </>  bootstrap",
      "<dim>OUTCOME</>  success",
      "<dim>REASON </>  Fix it and build it again (slipway deploy, or for an app of a repository slipway builds start).",
    ],
  );
});

test("times are relative on a terminal and whole elsewhere; states are coloured by what they mean", () => {
  const at = new Date(Date.now() - 185_000).toISOString();
  const fields = {
    At: moment(at),
    Never: moment(null),
    State: state("build_failure"),
    Other: state("live"),
  };
  assert.deepEqual(
    printed(80, (machine) => printFields(machine, fields)),
    [
      "<dim>At   </>  3 min ago",
      "<dim>Never</>  -",
      "<dim>State</>  <red>build_failure</>",
      "<dim>Other</>  <green>live</>",
    ],
  );
  assert.equal(
    printed(null, (machine) => printFields(machine, { At: moment(at) }))[0],
    `<dim>At</>  ${at}`,
  );
});

test("what the platform advises is shown with commands", () => {
  const fields = { Reason: "It failed: build it again (POST …/apps/{app}/builds)." };
  assert.deepEqual(
    printed(80, (machine) => printFields(machine, fields)),
    [
      "<dim>Reason</>  It failed: build it again (slipway deploy, or for an app of a repository slipway builds start).",
    ],
  );
});
