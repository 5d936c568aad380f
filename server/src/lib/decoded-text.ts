// Reads text that people have saved with any editor: by its byte order mark, as UTF-8, or by the
// encoding that its first lines name, as Python and pip do. Pure. A file that cannot be read is
// refused with its line and the byte, never taken for an empty one.
import { Fault } from "./fault.ts";

const marks: readonly { readonly encoding: string; readonly bytes: readonly number[] }[] = [
  { encoding: "utf-8", bytes: [0xef, 0xbb, 0xbf] },
  { encoding: "utf-16le", bytes: [0xff, 0xfe] },
  { encoding: "utf-16be", bytes: [0xfe, 0xff] },
];
/** As PEP 263 says, in one of the first two lines. */
const codingForm = /^(?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*([-\w.]+)/;
/** Longer than any such line. */
const codingBytesMax = 1000;

/**
 * The text of a file, without its byte order mark. Throws `Fault("invalid")` that names the file
 * and what is wrong.
 */
export function decodeText(bytes: Uint8Array, name: string): string {
  const text = decoded(bytes, name);
  const zero = text.indexOf("\0");
  if (zero < 0) return text;
  const line = text.slice(0, zero).split("\n").length;
  const what = "so it is no text, or UTF-16 without a byte order mark";
  throw new Fault("invalid", `${name} has a byte 0 in line ${line}, ${what}. Save it as UTF-8.`);
}

/**
 * Why Python cannot read a source file, in a sentence; null: it can, as far as the encoding is
 * concerned.
 */
export function pythonProblem(bytes: Uint8Array, name: string): string | null {
  const encoding = markOf(bytes);
  if (encoding !== undefined && encoding !== "utf-8")
    return `${name} is saved as ${encoding.slice(0, 6).toUpperCase()}, which Python does not read. Save it as UTF-8.`;
  if (strict("utf-8", bytes) !== null || codingOf(bytes) !== null) return null;
  const { line, byte } = firstWrong(bytes, () => false) ?? { line: 1, byte: 0 };
  return `${name} is not UTF-8: line ${line} has the byte 0x${byte.toString(16)}. Save it as UTF-8, or name its encoding in the first line, as in # -*- coding: latin-1 -*-.`;
}

function decoded(bytes: Uint8Array, name: string): string {
  const marked = markOf(bytes);
  const text = strict(marked ?? "utf-8", bytes);
  if (text !== null) return text;
  if (marked !== undefined && marked !== "utf-8") {
    throw new Fault(
      "invalid",
      `${name} begins as UTF-16, but is cut off or damaged. Save it as UTF-8.`,
    );
  }
  const coding = codingOf(bytes);
  const named = coding === null ? null : strict(labelOf(coding), bytes);
  if (named !== null) return named;
  // In a comment it does not matter what a byte stands for.
  const wrong = firstWrong(bytes, (line) => /^\s*#/.test(line));
  if (wrong === null) return new TextDecoder().decode(bytes);
  const said =
    coding === null
      ? ""
      : `, and the encoding that it names, ${coding}, is not known or does not fit`;
  const what = `${name} is not UTF-8: line ${wrong.line} has the byte 0x${wrong.byte.toString(16)}${said}`;
  throw new Fault("invalid", `${what}. Save it as UTF-8.`);
}

function markOf(bytes: Uint8Array): string | undefined {
  return marks.find((mark) => mark.bytes.every((byte, index) => bytes[index] === byte))?.encoding;
}

/** Null: the bytes are not of this encoding, or nobody knows it. */
function strict(encoding: string, bytes: Uint8Array): string | null {
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

function codingOf(bytes: Uint8Array): string | null {
  const head = new TextDecoder("latin1").decode(bytes.subarray(0, codingBytesMax));
  return codingForm.exec(head)?.[1] ?? null;
}

/** Python's name of an encoding as browsers call it. */
function labelOf(coding: string): string {
  const name = coding.toLowerCase().replaceAll("_", "-");
  return name.replace(/^latin-(?=\d)/, "latin").replace(/^cp932$/, "shift_jis");
}

/** The first byte that is not UTF-8, but for the lines that `isFine`. */
function firstWrong(bytes: Uint8Array, isFine: (line: string) => boolean) {
  let line = 1;
  for (let start = 0; start < bytes.length; line++) {
    const next = bytes.indexOf(0x0a, start);
    const end = next < 0 ? bytes.length : next;
    const part = bytes.subarray(start, end);
    if (strict("utf-8", part) === null) {
      const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(part);
      const before = new TextEncoder().encode(text.slice(0, text.indexOf("\ufffd")));
      if (!isFine(text)) return { line, byte: part[before.length] ?? 0 };
    }
    start = end + 1;
  }
  return null;
}
