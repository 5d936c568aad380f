// Which environment variables can be set.
import assert from "node:assert/strict";
import { test } from "node:test";
import { secretsOf, variablesProblem } from "./variable-values.ts";

test("rows without name and value are left out; other names are held to the form, and are there once", () => {
  const token = { name: "API_TOKEN", value: "a" };
  const nothing = { name: "", value: "" };
  assert.equal(variablesProblem([token, nothing]), "");
  assert.deepEqual(secretsOf([token, nothing]), { API_TOKEN: "a" });
  assert.match(variablesProblem([{ name: "", value: "a" }]), /^"" is no name of a variable/);
  assert.match(variablesProblem([{ name: "a b", value: "" }]), /^"a b" is no name of a variable/);
  assert.equal(variablesProblem([token, token]), "Two variables have the same name.");
  assert.match(variablesProblem([{ name: "A", value: "x".repeat(70_000) }]), /^A value must be /);
});
