// The commands in the place of operations of the API.
import assert from "node:assert/strict";
import { test } from "node:test";
import { buildAgain, howToChange } from "@slipway/contract/advice.ts";
import { withCommands } from "./command-advice.ts";

test("the platform's advice names commands instead of operations, and other text stays", () => {
  assert.equal(
    withCommands(`Correct it and ${buildAgain}.`),
    "Correct it and build it again (slipway deploy, or for an app of a repository slipway builds start).",
  );
  assert.equal(withCommands(`Raise it${howToChange("owner")}.`), "Raise it (slipway apps set).");
  assert.equal(
    withCommands("make one (POST …/apps/{app}/git-hook)."),
    "make one (slipway git hook create).",
  );
  assert.equal(
    withCommands("PUT …/git-credentials/{host}) and"),
    "slipway git credentials set) and",
  );
  assert.equal(
    withCommands("GET …/apps/{app}/runs and POST /v2/x"),
    "GET …/apps/{app}/runs and POST /v2/x",
  );
});
