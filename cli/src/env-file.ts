// Reads files of lines NAME=value (`.env`) for `secrets set --from-env` and `dev`, with the values
// that Docker Compose and python-dotenv both read there. What these two read differently is
// refused, so that no value is changed unseen. Pure.
import { isUtf8 } from "node:buffer";
import { misuse, type Refused } from "./refused.ts";

/** Ways to write a value between quotes: its form, what may not be in it, and its escapes. */
type Quotes = {
  readonly form: RegExp;
  readonly refusals: readonly Refusal[];
  readonly unescaped: (text: string) => string;
};

/** What is not read, and what to do instead. */
type Refusal = { readonly found: RegExp; readonly what: string };

const dollarSign: Refusal = {
  found: /\$[\w{$]|\\\$/,
  what: "has a $, which starts a variable for some programs. Put the value in single quotes",
};

const doubleEscapes: Readonly<Record<string, string>> = {
  '"': '"',
  "\\": "\\",
  n: "\n",
  r: "\r",
  t: "\t",
  a: "\x07",
  b: "\b",
  f: "\f",
  v: "\v",
};

const quotes: Readonly<Record<string, Quotes>> = {
  "'": {
    form: /'((?:\\.|[^'\\])*)'/suy,
    refusals: [
      {
        found: /\$\{/,
        what: "has ${ in single quotes, which starts a variable for some programs. Set it by itself: slipway secrets set <name>",
      },
      {
        found: /\\\\/,
        what: "has two backslashes in single quotes. Put the value in double quotes",
      },
    ],
    unescaped: (text) => text.replaceAll("\\'", "'"),
  },
  '"': {
    form: /"((?:\\.|[^"\\])*)"/suy,
    refusals: [
      dollarSign,
      {
        found: /^(?:\\[^'0]|[^\\])*\\['0]/su,
        what: "has \\' or \\0 in double quotes. Write the quote without a backslash, and two backslashes for one",
      },
    ],
    unescaped: (text) =>
      text.replaceAll(/\\(.)/gsu, (whole, letter: string) => doubleEscapes[letter] ?? whole),
  },
};

const bareRefusals: readonly Refusal[] = [
  dollarSign,
  {
    found: /^\s|\s$/u,
    what: "begins or ends with a blank that is no space. Put the value in quotes",
  },
  {
    found: /[^\S ]#/u,
    what: "has a # after a tab. Put the value in quotes, or a space before the comment",
  },
];

const blank = /(?:\s*(?:#[^\n]*)?)*/uy;
const named = /(?:export[ \t]+)?(?!export[ \t]*=)([A-Za-z_][\w.-]*)[ \t]*=([ \t]*)/uy;
const restOfLine = /[^\r\n]*/uy;
const endOfLine = /[ \t]*(?:#[^\n]*)?(?:\r?\n|$)/uy;
/** But tabs and line breaks. */
const controls = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]/u;

/**
 * The values by name; a later line wins. Throws `Refused`, with the number of the line and no
 * value.
 */
export function readEnvFile(bytes: Uint8Array, file: string): Readonly<Record<string, string>> {
  const text = textOf(bytes, file);
  const reader = new Reader(text, file);
  const loneReturn = /\r(?!\n)/.exec(text);
  if (loneReturn !== null)
    throw reader.refused(loneReturn.index, "has a carriage return without a line feed");
  const found = new Map<string, string>();
  for (;;) {
    reader.take(blank);
    if (reader.isAtEnd) return Object.fromEntries(found);
    const start = reader.at;
    const [, name = "", gap = ""] = reader.take(named) ?? [];
    if (name === "") throw reader.refused(start, "is not of the form NAME=value");
    const refuse = (what: string): Refused => reader.refused(start, `${name} ${what}`);
    found.set(name, valueAt(reader, gap, refuse));
  }
}

function valueAt(reader: Reader, gap: string, refuse: (what: string) => Refused): string {
  const quoted = quotes[reader.next];
  if (quoted === undefined) {
    const [line = ""] = reader.take(restOfLine) ?? [];
    if (gap !== "" && line.startsWith("#")) {
      throw refuse(
        "has a # after a space, which is a comment for some programs. Put the value in quotes",
      );
    }
    const value = line.replace(/ #.*$/u, "").replace(/[ \t]+$/u, "");
    throwFirst([...bareRefusals, control], [line.replace(/[ \t]+$/u, ""), value], refuse);
    return value;
  }
  const written = reader.take(quoted.form)?.[1];
  if (written === undefined) throw refuse("has no closing quote");
  if (reader.take(endOfLine) === null) {
    throw refuse(
      "has text after its closing quote. Put a backslash before quotes within the value",
    );
  }
  throwFirst([...quoted.refusals, windowsBreak, control], [written], refuse);
  return quoted.unescaped(written);
}

const windowsBreak: Refusal = {
  found: /\r\n/,
  what: "goes over several lines that end as on Windows. Save the file with the line ends of Linux (LF)",
};
const control: Refusal = { found: controls, what: "has a control character. Remove it" };

function throwFirst(
  refusals: readonly Refusal[],
  texts: readonly string[],
  refuse: (what: string) => Refused,
): void {
  const first = refusals.find(({ found }) => texts.some((text) => found.test(text)));
  if (first !== undefined) throw refuse(first.what);
}

/** Without a byte order mark, as both read it. */
function textOf(bytes: Uint8Array, file: string): string {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  try {
    return decoder.decode(bytes);
  } catch (error) {
    const lines = Buffer.from(bytes).toString("latin1").split("\n");
    const number = lines.findIndex((line) => !isUtf8(Buffer.from(line, "latin1"))) + 1;
    throw misuse(
      `${file}, line ${number}: this is not UTF-8. Save the file as UTF-8; nothing was read from it.`,
      error,
    );
  }
}

/** A position in the text. */
class Reader {
  readonly #text: string;
  readonly #file: string;
  #at = 0;

  constructor(text: string, file: string) {
    this.#text = text;
    this.#file = file;
  }

  get at(): number {
    return this.#at;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#text.length;
  }

  get next(): string {
    return this.#text.charAt(this.#at);
  }

  /** Goes on behind what the sticky form matches here; null: it matches nothing. */
  take(form: RegExp): RegExpExecArray | null {
    form.lastIndex = this.#at;
    const found = form.exec(this.#text);
    if (found !== null) this.#at += found[0].length;
    return found;
  }

  refused(at: number, what: string): Refused {
    const line = this.#text.slice(0, at).split("\n").length;
    return misuse(`${this.#file}, line ${line}: ${what}. Nothing was read from the file.`);
  }
}
