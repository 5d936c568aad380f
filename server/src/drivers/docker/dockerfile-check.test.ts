// What an app's own Dockerfile may ask for.
import assert from "node:assert/strict";
import { test } from "node:test";
import { BuildFailed } from "#drivers/builder.ts";
import { checkDockerfile, fetchesAddress } from "./dockerfile-check.ts";

const refusals = [
  { what: /ADD of an address/, text: "FROM a\nADD http://127.0.0.1:5432/ /got" },
  { what: /ADD of an address/, text: "FROM a\nadd --chown=1:1 https://example.com/a.tar.gz /got" },
  { what: /ADD of an address/, text: 'FROM a\nADD ["a", "http://10.0.0.1/", "/got"]' },
  { what: /ADD of an address/, text: "FROM a\nA\\\nDD http://10.0.0.1/ /got" },
  { what: /ADD of an address/, text: "FROM a\nADD \\\n# why\n\n  http://10.0.0.1/ /got" },
  { what: /ADD of an address/, text: "# escape=`\nFROM a\nADD `\nhttp://10.0.0.1/ /got" },
  { what: /ADD of an address/, text: "FROM a\nARG from=http://10.0.0.1/\nADD $from /got" },
  { what: /ADD of an address/, text: "FROM a\nADD git@example.com:a/b.git /got" },
  { what: /ADD of an address/, text: "FROM a\nONBUILD ADD http://10.0.0.1/ /got" },
  { what: /ADD of an address/, text: "FROM a\r\nADD http://10.0.0.1/ /got\r\n" },
  { what: /another reader/, text: "# syntax=attackers/frontend:1\nFROM a" },
  { what: /another reader/, text: "\uFEFF#syntax = docker/dockerfile.evil.example/x\nFROM a" },
  { what: /another reader/, text: "# escape=`\n#  SYNTAX=evil.example/docker/dockerfile:1\nFROM a" },
  { what: /another reader/, text: "#!/usr/bin/env x\n// syntax=attackers/frontend\nFROM a" },
  { what: /another reader/, text: '{"syntax": "attackers/frontend"}' },
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
  "FROM debian:12\nADD files.tar.gz /opt/\nADD a$VERSION.txt b /opt/\nRUN curl https://example.com",
  "# syntax=docker/dockerfile:1.7\nFROM a",
  "# syntax=docker.io/docker/dockerfile\nFROM a",
  'ARG A=1\nFROM a\nRUN echo "syntax = proto3" > a.proto && echo ADD http://example.com',
  "FROM a\nRUN <<END\nsyntax=1\nEND",
];

for (const text of allowed) {
  test(`allowed: ${JSON.stringify(text.slice(0, 60))}`, () => checkDockerfile(text, "Dockerfile"));
}

test("a large Dockerfile is checked in moments", () => {
  for (const unit of ["\n", "A", "ADD \\\n", "ADD [", " ", "# ", "syntax", "FROM a\n"]) {
    checkDockerfile(`FROM a\n${unit.repeat(Math.floor(99_000 / unit.length))}`, "Dockerfile");
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
  for (const title of ["[2/3] ADD a /b", "[1/3] FROM docker.io/library/debian", "[internal] load build context"]) {
    assert.ok(!fetchesAddress(title), title);
  }
});
