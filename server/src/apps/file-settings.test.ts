// What settings files say, as far as the database can store it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readFiles } from "./file-settings.ts";

function commandsIn(line: string): unknown {
  const configToml = `[cerebrium.deployment]\nname = "app"\nshell_commands = [${line}]\n`;
  return readFiles({ configToml }).files["shellCommands"]?.value;
}

test("a command with the escape of a character that cannot be stored is a command", () => {
  for (const command of [String.raw`printf "\u0000"`, String.raw`printf "\ud83d"`])
    assert.deepEqual(commandsIn(`'${command}'`), [command]);
});

test("a text that cannot be stored is one that shows what was given", () => {
  const configToml = '[cerebrium.deployment]\nname = "a\\u0000b"\n';
  const value = readFiles({ configToml }).files["name"]?.value;
  assert.equal(value, String.raw`"a\u0000b"`);
});
