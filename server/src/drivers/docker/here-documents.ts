// Finds the here-documents of a Dockerfile, as BuildKit reads them. It puts the values of variables
// into the body of one in COPY or ADD, unless the document's name is in quotes. Where a body ends
// must be certain: what looks like its last line could otherwise be an instruction, or hide one.
// Pure.

/** The body of a here-document of COPY or ADD. */
export type HereDocument = {
  readonly body: string;
  /** Whether BuildKit replaces the variables in the body. */
  readonly hasVariables: boolean;
};

/** One instruction of a Dockerfile. */
type Instruction = {
  /** The instruction's word, in any case. */
  readonly word: string;
  /** What follows the word, as one line. */
  readonly rest: string;
  /** The lines of the Dockerfile, and the index of the one after the instruction. */
  readonly lines: readonly string[];
  readonly next: number;
};

/** White space as BuildKit knows it, and what is not. */
const blank = /[\s\u0085]+/;
/** A word that may begin a here-document, such as `<<EOF` or `3<<-"EOF"`; the group is its name. */
const beginning = /(?<=^|[\s\u0085])\d*<<(?!<)-?((?:"[^"]*"|'[^']*'|[^\s\u0085"'])+)/g;
/**
 * A name that is no comment, and whose line cannot continue in the next one. For `\EOF`, the line
 * is `EOF`.
 */
const certainName = /^\\?["']?[^\s\u0085#"'\\`$][^\\`$]*$/;
/** A here-document in COPY or ADD; the groups are `-`, and the name in quotes or without. */
const plainDocument = /^\d*<<(-?)(?:"(\w+)"|'(\w+)'|(\w+))$/;
/** Any other word in such an instruction: with quotes or escapes, it would be unclear. */
const plainWord = /^(?:[^"'\\`$<]|\$\w|\$\{\w+\})*$/;

/**
 * Returns the here-documents whose bodies are files of COPY or ADD. The documents of RUN are not
 * among them, since the shell replaces their variables. Null: it is unclear where the instruction's
 * here-documents end.
 */
export function hereDocumentsOf(instruction: Instruction): readonly HereDocument[] | null {
  const { word, rest } = instruction;
  if (!/^(?:RUN|COPY|ADD)$/i.test(word) || !rest.includes("<<")) return [];
  if (!/^RUN$/i.test(word)) return documentsOfFiles(instruction);
  const isCertain = rest.matchAll(beginning).every(([, name = ""]) => certainName.test(name));
  return isCertain ? [] : null;
}

function documentsOfFiles({ rest, lines, next }: Instruction): readonly HereDocument[] | null {
  const documents: HereDocument[] = [];
  const names = new Set<string>();
  let at = next;
  for (const word of rest.split(blank)) {
    const [document, dash, inDouble, inSingle, bare] = plainDocument.exec(word) ?? [];
    if (document === undefined) {
      if (!plainWord.test(word)) return null;
      continue;
    }
    const name = inDouble ?? inSingle ?? bare ?? "";
    // BuildKit gives all documents of one name the body of the last one.
    if (names.has(name)) return null;
    names.add(name);
    const following = lines.slice(at);
    const end = following.findIndex((line) => isEnd(line, name, dash === "-"));
    if (end === -1) return null;
    const body = following.slice(0, end).join("\n");
    documents.push({ body, hasVariables: bare !== undefined });
    at += end + 1;
  }
  return documents;
}

/** Whether the line ends the here-document. After `<<-`, tabs may stand before the name. */
function isEnd(line: string, name: string, mayIndent: boolean): boolean {
  const text = line.replace(/\r+$/, "");
  return (mayIndent ? text.replace(/^\t+/, "") : text) === name;
}
