// How the command line of an entrypoint is split into words.
import assert from "node:assert/strict";
import { test } from "node:test";
import { shellWords } from "./shell-words.ts";

test("words, quotes and backslashes are read as by a shell", () => {
  assert.deepEqual(shellWords(`a  'b c' "d \\" \\e" f\\ g`), ["a", "b c", 'd " \\e', "f g"]);
  assert.deepEqual(shellWords(`'' "" $A *`), ["", "", "$A", "*"]);
  for (const open of ["a 'b", 'a "b', "a\\"]) assert.equal(shellWords(open), null, open);
});

test("a backslash at the end of a line continues the line, with any kind of line end", () => {
  for (const end of ["\n", "\r\n"]) {
    assert.deepEqual(shellWords(`python \\${end} main.py \\${end}  --port 80`), [
      "python",
      "main.py",
      "--port",
      "80",
    ]);
    assert.deepEqual(shellWords(`ma\\${end}in "a\\${end}b"`), ["main", "ab"]);
    assert.deepEqual(shellWords(`'a\\${end}b'`), [`a\\${end}b`], "not in single quotes");
  }
  assert.equal(shellWords("a \\\n'b"), null);
});
