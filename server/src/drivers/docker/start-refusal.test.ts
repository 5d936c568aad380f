// What the owner of an app reads when the engine did not start a container.
import assert from "node:assert/strict";
import { test } from "node:test";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { startRefusal } from "./start-refusal.ts";

const spec = replicaSpec({ artifact: { kind: "image", ref: "an-image" }, entrypoint: ["serve"] });

test("an engine that is sick is the operator's, who is told where the reason is", () => {
  const sick = Object.assign(new Error("unable to insert jump to DOCKER-ISOLATION-STAGE-1"), {
    statusCode: 500,
  });
  const { message, kind } = startRefusal(sick, spec);
  assert.match(message, /operator .*\(slipway doctor and the platform's log say what it is\)\.$/);
  assert.doesNotMatch(message, /DOCKER-ISOLATION/, "what the engine says is not for every owner");
  assert.equal(kind, "no_capacity");
});

test("a start command that is missing is the app's", () => {
  const text = 'OCI runtime create failed: exec: "serve": executable file not found in $PATH';
  const { message, kind } = startRefusal(Object.assign(new Error(text), { statusCode: 500 }), spec);
  assert.match(message, /^The start command was not found: serve\. /);
  assert.equal(kind, "refused");
});
