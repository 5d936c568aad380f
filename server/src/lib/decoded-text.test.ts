// Text of any editor is read as Python and pip read it; what is no text is named with its line.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeText, pythonProblem } from "./decoded-text.ts";
import { Fault } from "./fault.ts";

const latin = (text: string): Buffer => Buffer.from(text, "latin1");
const utf16le = (text: string): Buffer => Buffer.from(`\ufeff${text}`, "utf16le");

function problemOf(bytes: Uint8Array): string {
  try {
    return `read as ${JSON.stringify(decodeText(bytes, "list.txt"))}`;
  } catch (error) {
    if (error instanceof Fault && error.code === "invalid") return error.message;
    throw error;
  }
}

test("text is read whatever its byte order mark is, and by the encoding that its first lines name", () => {
  const given: readonly (readonly [Uint8Array, string])[] = [
    [Buffer.from("idna\r\n"), "idna\r\n"],
    [Buffer.from("\ufeffidna # é\n"), "idna # é\n"],
    [utf16le("idna\r\nsix # é\r\n"), "idna\r\nsix # é\r\n"],
    [utf16le("idna # é\n").swap16(), "idna # é\n"],
    [
      latin("# -*- coding: latin-1 -*-\nidna # caf\xe9\n"),
      "# -*- coding: latin-1 -*-\nidna # café\n",
    ],
    [
      latin("\n# vim: set fileencoding=iso-8859-15 :\nx = '\xa4'\n"),
      "\n# vim: set fileencoding=iso-8859-15 :\nx = '€'\n",
    ],
    [latin("# coding: cp1252\nx = '\x80'"), "# coding: cp1252\nx = '€'"],
    // Where it says something else, but is UTF-8.
    [Buffer.from("# coding: latin-1\né"), "# coding: latin-1\né"],
    [Buffer.alloc(0), ""],
    // What a comment says does not matter.
    [latin("idna\n  # caf\xe9\nsix\n"), "idna\n  # caf\ufffd\nsix\n"],
  ];
  for (const [bytes, text] of given) assert.equal(decodeText(bytes, "list.txt"), text);
});

test("what cannot be read is refused with its name, the line and the byte", () => {
  const wrong = "list.txt is not UTF-8: line 2 has the byte 0xe9. Save it as UTF-8.";
  assert.equal(problemOf(latin("# caf\xe9\nname = 'caf\xe9'\n")), wrong);
  assert.equal(problemOf(latin("\xc3\xa9\n\xc3\xa9 \xe9")), wrong);
  assert.match(
    problemOf(latin("# coding: klingon\ncaf\xe9")),
    /line 2 has the byte 0xe9, and the encoding that it names, klingon, is not known or does not fit\. Save it/,
  );
  // In the third line it names nothing.
  assert.match(
    problemOf(latin("\n\n# coding: latin-1\ncaf\xe9")),
    /line 4 has the byte 0xe9\. Save/,
  );
  assert.match(
    problemOf(Buffer.from("a\nb", "utf16le")),
    /has a byte 0 in line 1, so it is not text, or is UTF-16 without/,
  );
  assert.match(
    problemOf(Buffer.from([0xff, 0xfe, 0x00, 0xd8])),
    /begins as UTF-16, but is cut off or damaged/,
  );
});

test("a Python source file may have any encoding that it names, and no other than UTF-8 where it names none", () => {
  const fine = ["x = 1\n", "\ufeffx = 'é'\n", "x = 'é'\n"].map((text) => Buffer.from(text));
  for (const bytes of [...fine, latin("# coding: latin-1\nx = '\xe9'\n")])
    assert.equal(pythonProblem(bytes, "m"), null);
  assert.equal(
    pythonProblem(latin("x = 1\ny = '\xe9'\n"), "main.py"),
    "main.py is not UTF-8: line 2 has the byte 0xe9. Save it as UTF-8, or name its encoding in the first line, as in # -*- coding: latin-1 -*-.",
  );
  const sentence = "main.py is saved as UTF-16, which Python does not read. Save it as UTF-8.";
  assert.equal(pythonProblem(utf16le("x = 1\n"), "main.py"), sentence);
});
