// Reads text that people have saved with any editor: by its byte order mark, as UTF-8, or in the
// encoding that its first lines name, as Python and pip do. Refuses a file that cannot be read; the
// refusal names the line and the byte. Pure.
import { Fault } from "./fault.ts";

const marks: readonly { readonly encoding: string; readonly bytes: readonly number[] }[] = [
  { encoding: "utf-8", bytes: [0xef, 0xbb, 0xbf] },
  { encoding: "utf-16le", bytes: [0xff, 0xfe] },
  { encoding: "utf-16be", bytes: [0xfe, 0xff] },
];
/** The name of an encoding in one of the first two lines, as in PEP 263. */
const codingForm = /^(?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*([-\w.]+)/;
/** More bytes than the first two lines have in practice. */
const codingBytesMax = 1000;

/**
 * Returns the text of a file, without its byte order mark. Throws `Fault("invalid")` that names the
 * file and the problem.
 */
export function decodeText(bytes: Uint8Array, name: string): string {
  const text = decoded(bytes, name);
  const zero = text.indexOf("\0");
  if (zero < 0) return text;
  const line = text.slice(0, zero).split("\n").length;
  const consequence = "so it is not text, or is UTF-16 without a byte order mark";
  throw new Fault(
    "invalid",
    `${name} has a byte 0 in line ${line}, ${consequence}. Save it as UTF-8.`,
  );
}

/**
 * Says in a sentence why Python cannot read a source file; null when its encoding is no problem.
 */
export function pythonProblem(bytes: Uint8Array, name: string): string | null {
  const encoding = markOf(bytes);
  // The message shows "UTF-16" without the order of its bytes.
  if (encoding !== undefined && encoding !== "utf-8")
    return `${name} is saved as ${encoding.slice(0, 6).toUpperCase()}, which Python does not read. Save it as UTF-8.`;
  if (decodeStrictly("utf-8", bytes) !== null || codingOf(bytes) !== null) return null;
  // There is a wrong byte, since the strict decoder has failed.
  const { line, byte } = firstWrong(bytes, () => false) ?? { line: 1, byte: 0 };
  return `${name} is not UTF-8: line ${line} has the byte 0x${byte.toString(16)}. Save it as UTF-8, or name its encoding in the first line, as in # -*- coding: latin-1 -*-.`;
}

function decoded(bytes: Uint8Array, name: string): string {
  const markedEncoding = markOf(bytes);
  const text = decodeStrictly(markedEncoding ?? "utf-8", bytes);
  if (text !== null) return text;
  if (markedEncoding !== undefined && markedEncoding !== "utf-8") {
    throw new Fault(
      "invalid",
      `${name} begins as UTF-16, but is cut off or damaged. Save it as UTF-8.`,
    );
  }
  const coding = codingOf(bytes);
  const codedText = coding === null ? null : decodeStrictly(labelOf(coding), bytes);
  if (codedText !== null) return codedText;
  // Wrong bytes in comments do not matter, so lines that are comments are passed over.
  const wrong = firstWrong(bytes, (line) => /^\s*#/.test(line));
  if (wrong === null) return new TextDecoder().decode(bytes);
  const codingProblem =
    coding === null
      ? ""
      : `, and the encoding that it names, ${coding}, is not known or does not fit`;
  const problem = `${name} is not UTF-8: line ${wrong.line} has the byte 0x${wrong.byte.toString(16)}${codingProblem}`;
  throw new Fault("invalid", `${problem}. Save it as UTF-8.`);
}

function markOf(bytes: Uint8Array): string | undefined {
  return marks.find((mark) => mark.bytes.every((byte, index) => bytes[index] === byte))?.encoding;
}

/** Returns null when the bytes are not in this encoding, or when the encoding is unknown. */
function decodeStrictly(encoding: string, bytes: Uint8Array): string | null {
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

/** Returns the name that browsers use for an encoding that Python calls `coding`. */
function labelOf(coding: string): string {
  const name = coding.toLowerCase().replaceAll("_", "-");
  return name.replace(/^latin-(?=\d)/, "latin").replace(/^cp932$/, "shift_jis");
}

/** Finds the first byte that is not UTF-8, except in lines for which `isFine` returns true. */
function firstWrong(bytes: Uint8Array, isFine: (line: string) => boolean) {
  let line = 1;
  for (let start = 0; start < bytes.length; line++) {
    const next = bytes.indexOf(0x0a, start);
    const end = next < 0 ? bytes.length : next;
    const part = bytes.subarray(start, end);
    if (decodeStrictly("utf-8", part) === null) {
      // The decoder puts U+FFFD in place of wrong bytes, so the text before the first U+FFFD has as
      // many bytes as there are before the first wrong one.
      const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(part);
      const before = new TextEncoder().encode(text.slice(0, text.indexOf("\ufffd")));
      if (!isFine(text)) return { line, byte: part[before.length] ?? 0 };
    }
    start = end + 1;
  }
  return null;
}
