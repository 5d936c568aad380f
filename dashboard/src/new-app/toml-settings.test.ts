// What the page says of a pasted TOML file.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readTomlSettings } from "./toml-settings.ts";

test("a file's settings are named by field, those that are not allowed say so, and unknown keys are listed", () => {
  const { settings, unknown, problem } = readTomlSettings(
    `other = 1\n[cerebrium.deployment]\nname = "hello"\npython_version = 3.12\nnme = 1\n[cerebrium.hardware]\ncpu = 500\n` +
      `[cerebrium.dependencies.pip]\nnumpy = "latest"\n[cerebrium.runtime.custom]\nport = 80\n`,
  );
  assert.equal(problem, "");
  assert.deepEqual(unknown, ["other", "deployment.nme"]);
  assert.deepEqual(
    settings.map(({ path, name, value, problem: why }) => [
      path,
      name,
      typeof value === "object" ? "…" : value,
      why,
    ]),
    [
      ["deployment.name", "name", "hello", ""],
      ["deployment.python_version", "pythonVersion", 3.12, ""],
      ["hardware.cpu", "cpu", 500, "cpu must be a number from 0.25 to 192."],
      ["dependencies.pip", null, "…", ""],
      ["runtime.custom", "runtime", "custom", ""],
      ["runtime.custom.port", "port", 80, ""],
    ],
  );
});

test("the platform's own table is read beside the other one", () => {
  const text = `[slipway.build]\nsecrets = ["PIP_TOKEN"]\nsecret = 1\n[slipway.bild]\na = 1\n`;
  const { settings, unknown, problem } = readTomlSettings(text);
  assert.deepEqual([unknown, problem], [["slipway.build.secret", "slipway.bild"], ""]);
  const [only] = settings;
  assert.deepEqual([only?.name, only?.value, only?.problem], ["buildSecrets", ["PIP_TOKEN"], ""]);
  const [bad] = readTomlSettings(`[slipway.build]\nsecrets = ["1BAD"]\n`).settings;
  assert.match(bad?.problem ?? "", /^buildSecrets must be a list of at most 20 names of variables/);
});

test("what is no TOML, or sets nothing, says why", () => {
  assert.match(readTomlSettings("[cerebrium\n").problem, /^Not valid TOML at line 1: .+\.$/);
  assert.match(readTomlSettings("a = 1").problem, /no table cerebrium/);
  assert.equal(readTomlSettings("cerebrium = 5").settings.length, 0);
  assert.match(
    readTomlSettings(`${"a = [".repeat(1)}${"[".repeat(2000)}`).problem,
    /^Not valid TOML/,
  );
});
