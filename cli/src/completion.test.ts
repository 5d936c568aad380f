// The scripts of `slipway completion`, run by the shells that this machine has.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { commands } from "./commands.ts";

const main = fileURLToPath(new URL("main.ts", import.meta.url));

function scriptFor(shell: string): string {
  const { stdout, stderr, status } = spawnSync(process.execPath, [main, "completion", shell], {
    encoding: "utf8",
  });
  assert.equal(status, 0, stderr);
  return stdout;
}

/** What bash offers for the last of the words. */
function offered(script: string, line: readonly string[]): string[] {
  const words = ["slipway", ...line].map((word) => `'${word}'`).join(" ");
  const asking = `COMP_WORDS=(${words}); COMP_CWORD=${line.length}; _slipway; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr } = spawnSync("bash", ["-c", `${script}\n${asking}`], {
    encoding: "utf8",
  });
  assert.equal(stderr, "");
  return stdout.split("\n").filter(Boolean);
}

test("bash offers commands, their verbs and options, also after operands", () => {
  const script = scriptFor("bash");
  assert.deepEqual(offered(script, [""]).toSorted(), Object.keys(commands).toSorted());
  assert.deepEqual(offered(script, ["dep"]), ["deploy"]);
  assert.deepEqual(offered(script, ["projects", ""]), [
    "list",
    "create",
    "rename",
    "delete",
    "use",
  ]);
  assert.deepEqual(offered(script, ["projects", "u"]), ["use"]);
  assert.deepEqual(offered(script, ["logs", "hello", "--fo"]), ["--follow"]);
  assert.deepEqual(offered(script, ["no-such", "x"]), []);
  const asking = `slipway() { [[ "$*" == "completion apps" ]] && printf '%s\\n' hello help-desk; }\n${script}`;
  assert.deepEqual(offered(asking, ["logs", "hel"]), ["hello", "help-desk"]);
  assert.deepEqual(offered(asking, ["builds", "show", "hello"]), ["hello"]);
  assert.deepEqual(offered(asking, ["logs", "hello", "hel"]), []);
  assert.deepEqual(offered(asking, ["secrets", "hel"]), []);
});

test("each command is in the scripts for zsh and fish, and another shell is refused", () => {
  for (const shell of ["zsh", "fish"]) {
    const script = scriptFor(shell);
    for (const name of Object.keys(commands)) assert.ok(script.includes(name), `${shell}: ${name}`);
    const { error, status, stderr } = spawnSync(shell, ["-n"], { input: script, encoding: "utf8" });
    if (error === undefined) assert.equal(status, 0, stderr);
  }
  const { status, stderr } = spawnSync(process.execPath, [main, "completion", "csh"], {
    encoding: "utf8",
  });
  assert.deepEqual(
    [status, stderr],
    [2, 'shell is "csh", but must be one of bash, zsh, fish, or apps.\n'],
  );
});
