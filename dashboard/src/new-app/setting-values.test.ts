// Texts of inputs as the API takes them, and what the contract says of them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { bodyOf, fieldOfMessage, problemOf } from "./setting-values.ts";

test("a request has the fields with a text, each as its kind", () => {
  assert.deepEqual(
    bodyOf({
      name: "reader",
      cpu: "2.5",
      disableAuth: "true",
      compute: "CPU, TURING_T4,",
      entrypoint: "python main.py, twice",
      gitBranch: "",
    }),
    {
      name: "reader",
      cpu: 2.5,
      disableAuth: true,
      compute: ["CPU", "TURING_T4"],
      entrypoint: ["python main.py, twice"],
    },
  );
});

test("a text that the contract refuses has a reason with the field's name, an empty one none", () => {
  assert.match(problemOf("cpu", "many"), /^cpu must be /);
  assert.match(problemOf("disableAuth", "perhaps"), /^disableAuth must be /);
  assert.deepEqual([problemOf("cpu", ""), problemOf("cpu", "2")], ["", ""]);
  assert.equal(problemOf("gitRepo", "git@host:acme/app"), "", "the platform reads more forms");
});

test("a refusal is shown at the field that it begins with", () => {
  assert.equal(fieldOfMessage("cpu must be a number."), "cpu");
  assert.equal(fieldOfMessage("The name is taken."), null);
});
