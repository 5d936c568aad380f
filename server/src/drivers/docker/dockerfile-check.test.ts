// What an app's own Dockerfile may ask for.
import assert from "node:assert/strict";
import { test } from "node:test";
import { BuildFailed } from "#drivers/builder.ts";
import { checkDockerfile, fetchesAddress } from "./dockerfile-check.ts";

const ways = [
  "FROM a\nADD http://10.0.0.1/x ,",
  "FROM a\nADD http://10.0.0.1/x --y",
  'FROM a\nADD ["http://10.0.0.1/x", ""]',
  'FROM a\nADD ["\\u0068ttp://10.0.0.1/x", "/got"]',
  "FROM a\nADD h$X /got",
  "FROM a\nADD h'ttp'://10.0.0.1/ /got",
  "FROM a\nADD h\\ttp:\\//10.0.0.1/ /got",
  'FROM a\nADD "git"@h:x /got',
  "FROM a\nRUN true \\\f\nADD \\\nhttp://10.0.0.1/ /got",
  "FROM a\nRUN true \\\r\r\nADD \\\r\r\nhttp://10.0.0.1/ /got",
  "FROM a\nRUN true \\\\\nADD \\\nhttp://10.0.0.1/ /got",
  "FROM a\nRUN <<'E\\'\ntrue\nE\\\nADD \\\nhttp://10.0.0.1/ /got",
  "FROM a\n\u0085ADD\u0085http://10.0.0.1/ /got",
  "FROM a\nONB\\\nUILD A\\\nDD git@h:x /got",
];

const refusals = [
  ...ways.map((text) => ({ what: /ADD is possible with plain names/, text })),
  { what: /ADD is possible with plain names/, text: "FROM a\nADD http://127.0.0.1:5432/ /got" },
  {
    what: /ADD is possible with plain names/,
    text: "FROM a\nadd --chown=1:1 https://example.com/a.tar.gz /got",
  },
  {
    what: /ADD is possible with plain names/,
    text: 'FROM a\nADD ["a", "http://10.0.0.1/", "/got"]',
  },
  { what: /ADD is possible with plain names/, text: "FROM a\nA\\\nDD http://10.0.0.1/ /got" },
  {
    what: /ADD is possible with plain names/,
    text: "FROM a\nADD \\\n# why\n\n  http://10.0.0.1/ /got",
  },
  {
    what: /ADD is possible with plain names/,
    text: "# escape=`\nFROM a\nADD `\nhttp://10.0.0.1/ /got",
  },
  {
    what: /ADD is possible with plain names/,
    text: "FROM a\nARG from=http://10.0.0.1/\nADD $from /got",
  },
  { what: /ADD is possible with plain names/, text: "FROM a\nADD git@example.com:a/b.git /got" },
  { what: /ADD is possible with plain names/, text: "FROM a\nONBUILD ADD http://10.0.0.1/ /got" },
  { what: /ADD is possible with plain names/, text: "FROM a\r\nADD http://10.0.0.1/ /got\r\n" },
  { what: /another reader/, text: "# syntax=attackers/frontend:1\nFROM a" },
  { what: /another reader/, text: "\uFEFF#syntax = docker/dockerfile.evil.example/x\nFROM a" },
  { what: /another reader/, text: "# syntax=docker/dockerfile:1.0.0\nFROM a" },
  {
    what: /another reader/,
    text: "# syntax=docker/dockerfile:1\n# syntax=attackers/frontend\nFROM a",
  },
  {
    what: /another reader/,
    text: "# escape=syntax=docker/dockerfile:1\n# syntax=attackers/frontend:1\nFROM a",
  },
  {
    what: /another reader/,
    text: "# escape=`\n#  SYNTAX=evil.example/docker/dockerfile:1\nFROM a",
  },
  {
    what: /ADD is possible with plain names/,
    text: `FROM a\nADD \\\n${"# x\n".repeat(150)}http://10.0.0.1/ /got`,
  },
  {
    what: /ADD is possible with plain names/,
    text: `FROM a\nADD \\\n${"x \\\n".repeat(150)}http://10.0.0.1/ /got`,
  },
  {
    what: /can grow to \d+ characters when its variables are put in/,
    text: `FROM a\nARG A0="xxxxxxxxxx"\n${[1, 2, 3, 4, 5, 6, 7].map((n) => `ARG A${n}="${`$A${n - 1}`.repeat(10)}"`).join("\n")}`,
  },
  {
    what: /can grow to/,
    text: `FROM a\nENV A ${"x".repeat(20_000)}\n${"LABEL b=$A\n".repeat(2000)}`,
  },
  { what: /can grow to/, text: `FROM a\nENV A=${"x".repeat(50_000)}\n${"RUN x\n".repeat(2000)}` },
  {
    what: /can grow to/,
    text: `FROM a\nENV A=${"x".repeat(1000)}\nENV B=\${A//x/$A$A$A$A}\nENV C=\${B//x/$A}`,
  },
  ...['"A"', "\\A", "é", "A A", 'B=1 "A"', "B=1\u0085A"].map((name) => ({
    what: /can grow to/,
    text: `FROM a\nENV ${name}=${"x".repeat(1000)}\n${`ENV ${name}=${"$A$é".repeat(10)}\n`.repeat(5)}`,
  })),
  {
    what: /can grow to over 1e15/,
    text: `FROM a\nENV A=${"x".repeat(1000)}\n${"ENV A=${A//x/$A}\n".repeat(20)}`,
  },
  {
    what: /can grow to/,
    text: `FROM a\nARG A=${"x".repeat(80)}\nLABEL b=${"${A//x/".repeat(4)}$A${"}".repeat(4)}`,
  },
  {
    what: /can grow so long .* read them for minutes/,
    text: `FROM a\nARG A=${"x".repeat(40_000)}\nLABEL b=${"$A".repeat(8)}`,
  },
  {
    what: /can grow so long .* read them for minutes/,
    text: `FROM a\nARG A=${"x".repeat(40_000)}\n${"LABEL b=$A\n".repeat(80)}`,
  },
  ...[
    "LABEL a=b \\\\\nENV A=x",
    "LABEL a=b \\\u00a0\nENV A=x",
    "\u0085ENV A=x",
    "ENV B=1 \\\n\ufeff#=1 A=x",
    "ENV B=1 \\\n\u0085# a remark\nA=x",
  ].map((lines) => ({
    what: /can grow so long/,
    text: `FROM a\n${lines}${"x".repeat(40_000)}\nLABEL b=${"$A".repeat(8)}`,
  })),
  ...["# ", "RUN ", "x "].flatMap((lineStart) =>
    ["COPY <<E /x", "add <<-E /x", "ONBUILD COPY \\\n --chown=$U <<E /x", "COPY <<X <<E /x\nX"].map(
      (instruction) => ({
        what: /can grow so long/,
        text: `ARG a=${"x".repeat(30_000)}\nFROM a\n${instruction}\n${lineStart}${"$a".repeat(20)}\nE\n`,
      }),
    ),
  ),
  {
    what: /can grow so long/,
    text: `FROM a\nARG a=${"x".repeat(30_000)}\nCOPY <<E /x\n${"$a\n".repeat(20)}E\r`,
  },
  ...["--mount=target=", '--mount="', "--network=x --mount=type=\\a\\ "].map((flag) => ({
    what: /can grow so long/,
    text: `FROM a\nARG a=${"x".repeat(30_000)}\nRUN ${flag}${"$a".repeat(20)} true`,
  })),
  {
    what: /can grow so long/,
    text: `FROM a AS s\nONBUILD LABEL b=${"$A".repeat(9)}\nENV A=${"x".repeat(40_000)}\nFROM s`,
  },
  { what: /can grow to over 1e15/, text: "FROM a\nONBUILD RUN x\n".repeat(4000) },
  // Each of these could hide an instruction after the last line of the here-document.
  ...[
    "RUN <<'LABEL \\'\nLABEL \\",
    "RUN true <<LABEL\\\\\nLABEL \\",
    "RUN <<#\nLABEL \\\n#",
    "RUN <<' '\nLABEL \\\n ",
    "RUN <<${X:-LABEL}\nLABEL",
    "COPY <<'E F' /x\nE F",
    'COPY "a <<E b" /x\nE',
    "COPY <<E <<E /x\nE\nE",
    "COPY a\\ <<E /x\nE",
  ].map((lines) => ({
    what: /It is unclear where the here-documents/,
    text: `FROM a\n${lines}\nENV A=x`,
  })),
  {
    what: /It is unclear where .*; in COPY and ADD, use at most 100,/,
    text: `FROM a\n${"COPY <<E /x\nE\n".repeat(102)}`,
  },
  { what: /has 100,?001 characters/, text: "#".repeat(100_001) },
];

for (const { what, text } of refusals) {
  test(`refused: ${JSON.stringify(text.slice(0, 60))}`, () => {
    assert.throws(
      () => checkDockerfile(text, "Dockerfile"),
      (error) => error instanceof BuildFailed && what.test(error.message),
    );
  });
}

const allowed = [
  "FROM debian:12\nADD files.tar.gz /opt/\nCOPY a$VERSION.txt b /opt/\nRUN curl https://example.com",
  "# syntax=docker/dockerfile:1.7\nFROM a",
  "# syntax=docker.io/docker/dockerfile\nFROM a",
  'ARG A=1\nFROM a\nRUN echo "syntax = proto3" > a.proto && echo ADD http://example.com',
  "FROM a\nRUN <<END\nsyntax=1\nEND",
  `FROM a\nENV P=/usr/bin\n${"ENV L=$H/lib:$C/lib:$L P=$H/bin:${P}\n".repeat(40)}${"RUN $L\n".repeat(200)}`,
  `FROM a\nENV A=${"x".repeat(90_000)}`,
  `FROM a\n${"ENV V=${TARGETARCH/a/b}\n".repeat(20)}`,
  `FROM a\nARG V=1.2.3\n${"ENV U=https://example.com/${TARGETOS/a/b}-${TARGETARCH/amd64/x86_64}-${V//./_}.tgz\n".repeat(10)}`,
  "FROM a AS s\nONBUILD COPY $A ${B//a/b}\nFROM s\nRUN true\nFROM s",
  // Here-documents of usual forms, and `<<` with another meaning.
  "FROM a\nCOPY --chmod=755 <<-E <<'F' $HOME/${X}/\n\t$A ${B//a/b}\n\tE\n${C//a/b}\nF\nRUN true",
  `FROM a\nARG a=${"x".repeat(30_000)}\nCOPY <<'E' /x\n# ${"$a".repeat(20)}\nE`,
  "FROM a\nRUN <<E\nif true; then \\\n  echo $A; fi\nE\nRUN cat <<\\E > x && cat <<'F' <<\"G\"\n$A\nE\nF\nG",
  "FROM a\nRUN echo $((1 << 3)) $((1<<3)) && cat <<< 'x' && python -c 'a <<= 2; print(1<<3, \"\\n\")'",
  'FROM a\nRUN --mount=type=cache,target=$HOME/.cache --network=none x "$A" ${B//a/b}',
  'FROM a\nADD . /app\nADD --chown=$U:$G ["a b", "/x"]\nADD \\\n a \\\n b /x/',
];

for (const text of allowed) {
  test(`allowed: ${JSON.stringify(text.slice(0, 60))}`, () => {
    assert.ok(checkDockerfile(text, "Dockerfile").endsWith(text));
  });
}

test("the arguments of the build count with their lengths", () => {
  const text = `FROM a\nARG A\nLABEL b=${"$A".repeat(8)}`;
  checkDockerfile(text, "Dockerfile", { A: "x" });
  assert.throws(() => checkDockerfile(text, "Dockerfile", { A: "x".repeat(40_000) }), BuildFailed);
});

test("the head says which reader and which sign of continuation there are, and nothing after it counts", () => {
  const remark = "# The Dockerfile of the app follows.\n";
  const heads = {
    "# Syntax = docker/dockerfile:1.4\n# escape=`\nFROM a":
      "# syntax=docker/dockerfile:1.4\n# escape=`\n",
    "FROM a": "",
    "# usual\n# syntax=attackers/frontend\nFROM a": "",
    '{"syntax": "attackers/frontend"}': "",
    "// syntax=attackers/frontend\nFROM a": "",
  };
  for (const [text, head] of Object.entries(heads)) {
    assert.equal(checkDockerfile(text, "Dockerfile"), `${head}${remark}${text}`);
  }
  const blanks = `#${" ".repeat(1000)}syntax=attackers/frontend\nFROM a`;
  assert.equal(checkDockerfile(blanks, "Dockerfile"), `${remark}${blanks}`);
});

test("a large Dockerfile is checked in moments", () => {
  const units = [
    "\n",
    "A",
    "A\\\n",
    "ADD ",
    "ADD [",
    " ",
    "# ",
    "syntax",
    "FROM a\n",
    "ENV A=",
    'ENV A=$A B="$B" \\\n',
    "COPY <<E $A /x\n",
    "COPY <<E /x\nE\n",
    'RUN <<"#" ',
  ];
  for (const unit of units) {
    const text = `FROM a\n${unit.repeat(Math.floor(99_000 / unit.length))}`;
    // With variables it grows too long, and here-documents without an end are unclear.
    if (/\$|<</.test(unit)) assert.throws(() => checkDockerfile(text, "Dockerfile"), BuildFailed);
    else checkDockerfile(text, "Dockerfile");
  }
});

test("a build's step that fetches an address is known by its title", () => {
  for (const title of [
    "http://127.0.0.1:1/",
    "https://example.com/a",
    "git://example.com/a",
    "[2/3] ADD http://a /b",
  ]) {
    assert.ok(fetchesAddress(title), title);
  }
  for (const title of [
    "[2/3] ADD a /b",
    "[1/3] FROM docker.io/library/debian",
    "[internal] load build context",
  ]) {
    assert.ok(!fetchesAddress(title), title);
  }
});
