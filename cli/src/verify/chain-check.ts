// Verifies the chain of an exported audit log line by line: what must come next, and what a
// different line means.
import {
  keyIdOf,
  signatureFault,
  type PublicKeys,
} from "@slipway/server/src/audit/chain/chain-signature.ts";
import {
  chainBegin,
  linkHash,
  linkText,
  signedText,
  type ChainPosition,
  type CheckpointLine,
  type EntryLine,
  type ExportHeader,
  type ExportLine,
  type SignedLine,
  type StubLine,
} from "@slipway/server/src/audit/export/export-format.ts";
import { parseLine, type TextLine } from "./export-reader.ts";
import { broken, type Broken, type Verdict } from "./verdict.ts";
import type { Survey } from "./verify-survey.ts";

/**
 * A fault whose kind depends on the lines that follow: those of entries and checkpoints with the
 * numbers in `sought`.
 */
export type Doubt = {
  readonly sought: readonly number[];
  readonly judge: (rest: Survey) => Broken;
};

/** The fault of a signature: a trouble, and a predicate for the sentence. */
export async function lineFaultOf(
  line: SignedLine,
  project: string | null,
  keys: PublicKeys | null,
) {
  if (keys === null) return null;
  const { jws, ...unsigned } = line;
  const fault = await signatureFault(jws, signedText(unsigned, project), keys);
  if (fault === null) return null;
  if (fault === "unknown key") {
    const key = JSON.stringify(keyIdOf(jws));
    return {
      trouble: "signature",
      what: `is signed with the key ${key}, which is not among the given keys`,
    } as const;
  }
  return { trouble: "altered", what: "was altered: its signature does not match" } as const;
}

/** Verifies one chain. */
export class ChainCheck {
  readonly #header: ExportHeader;
  readonly #keys: PublicKeys | null;
  /** The last valid entry, its line, and the hash before it. */
  #last: ChainPosition;
  #lastLine = 1;
  #hashBefore = chainBegin.hash;
  #stub: StubLine | null = null;
  /** The number of the last checkpoint; null before the first. */
  #signed: number | null = null;
  #checkpoints = 0;

  constructor(header: ExportHeader, keys: PublicKeys | null) {
    this.#header = header;
    this.#keys = keys;
    this.#last = header.after;
  }

  /** The position of the last valid entry. */
  get position(): ChainPosition {
    return this.#last;
  }

  /** Checks one more line; null: it is valid. */
  async take({ line, text, isEnded }: TextLine): Promise<Doubt | Broken | null> {
    if (!isEnded)
      return broken("truncated", line, this.#next, `The file ends within line ${line}.`);
    const parsed = parseLine(text);
    if (parsed === null) return this.#malformed(line);
    const isStubDue = this.#header.after.number > 0 && this.#stub === null;
    if (parsed.kind === "stub") return await this.#takeStub(line, parsed, isStubDue);
    if (isStubDue) return this.#noStub(line, parsed);
    if (parsed.kind === "entry") return this.#takeEntry(line, parsed);
    if (parsed.kind === "checkpoint") return await this.#takeCheckpoint(line, parsed);
    return broken("inserted", line, null, `Line ${line} is a header: it was inserted.`);
  }

  /** The verdict after the last line. */
  end(lastLine: number): Verdict {
    const { project, exportedAt, after, through } = this.#header;
    const at = lastLine + 1;
    if (after.number > 0 && this.#stub === null) {
      return broken("truncated", at, null, `The file ends with line ${lastLine}, before its stub.`);
    }
    if (this.#last.number < through.number) {
      const missing = rangeText(this.#next, through.number);
      return broken(
        "truncated",
        at,
        this.#next,
        `The file ends with line ${lastLine}: ${missing} missing at its end.`,
      );
    }
    if (this.#last.hash !== through.hash) return this.#writtenAnew(1, through.number);
    if (through.number > after.number && this.#signed !== through.number) {
      const what = `the checkpoint of entry ${through.number} is missing at its end`;
      return broken(
        "truncated",
        at,
        through.number,
        `The file ends with line ${lastLine}: ${what}.`,
      );
    }
    const areSigned = this.#keys !== null;
    const counts = { checkpoints: this.#checkpoints, stub: this.#stub };
    return { result: "intact", project, exportedAt, after, through, ...counts, areSigned };
  }

  get #next(): number {
    return this.#last.number + 1;
  }

  #malformed(line: number): Broken {
    return broken(
      "altered",
      line,
      null,
      `Line ${line} is not a valid line of an export: it was altered or inserted.`,
    );
  }

  async #takeStub(line: number, stub: StubLine, isDue: boolean): Promise<Broken | null> {
    if (!isDue || line !== 2)
      return broken("inserted", line, null, `Line ${line} is a stub that does not belong there.`);
    const { after, project } = this.#header;
    const fault = await lineFaultOf(stub, project, this.#keys);
    if (fault !== null)
      return broken(fault.trouble, line, null, `Line ${line}, the stub, ${fault.what}.`);
    if (stub.number !== after.number || stub.hash !== after.hash) {
      return broken(
        "altered",
        line,
        null,
        `Line ${line}, the stub, is not the one that line 1 refers to.`,
      );
    }
    this.#stub = stub;
    return null;
  }

  #noStub(line: number, instead: Exclude<ExportLine, StubLine>): Doubt {
    const number = "number" in instead ? instead.number : 0;
    const judge = ({ stub, entries, checkpoints }: Survey): Broken => {
      if (stub === null)
        return broken("missing", line, null, `The stub is missing before line ${line}.`);
      const again = instead.kind === "entry" ? entries.has(number) : checkpoints.has(number);
      if (again || number === 0)
        return broken(
          "inserted",
          line,
          null,
          `Line ${line} was inserted before the stub (line ${stub}).`,
        );
      return broken("reordered", line, null, `Line ${line} comes before the stub (line ${stub}).`);
    };
    return { sought: [number], judge };
  }

  #takeEntry(line: number, given: EntryLine): Doubt | Broken | null {
    const { number, hash, entry } = given;
    const next = this.#next;
    const { project, through } = this.#header;
    const hashAs = (position: ChainPosition): string =>
      linkHash(position.hash, linkText({ number: position.number + 1, project, entry }));
    const isSuccessor = hashAs(this.#last) === hash;
    if (number === next && isSuccessor && number <= through.number) {
      this.#hashBefore = this.#last.hash;
      this.#last = { number, hash };
      this.#lastLine = line;
      return null;
    }
    const what = `entry ${number} (id ${entry.id})`;
    if (number !== next && isSuccessor) {
      return broken(
        "altered",
        line,
        next,
        `Line ${line}, entry ${next} (id ${entry.id}), was altered: its number.`,
      );
    }
    if (number > through.number) {
      return broken(
        "inserted",
        line,
        number,
        `Line ${line}, ${what}, was inserted: the log ended with ${through.number}.`,
      );
    }
    if (number > next) return this.#early(line, given);
    if (number === next) {
      const judge = ({ entries }: Survey): Broken =>
        entries.has(next)
          ? broken(
              "inserted",
              line,
              next,
              `Line ${line}, ${what}, was inserted: the true one is line ${entries.get(next)?.line}.`,
            )
          : broken(
              "altered",
              line,
              next,
              `Line ${line}, ${what}, was altered: its hash does not match.`,
            );
      return { sought: [next], judge };
    }
    const isCopy = hash === this.#last.hash;
    const rival =
      number === this.#last.number &&
      !isCopy &&
      hashAs({ number: number - 1, hash: this.#hashBefore }) === hash;
    return rival ? this.#twins(line, given) : this.#repeated(line, given);
  }

  #repeated(line: number, { number, entry }: EntryLine): Broken {
    return broken(
      "inserted",
      line,
      number,
      `Line ${line}, entry ${number} (id ${entry.id}), was inserted: it also appears earlier.`,
    );
  }

  /** Two entries follow the same entry; the one that the next entry links to is genuine. */
  #twins(line: number, given: EntryLine): Doubt {
    const { number, hash } = given;
    const earlier = this.#lastLine;
    const next = this.#next;
    const { project, through } = this.#header;
    const judge = ({ entries }: Survey): Broken => {
      const follower = entries.get(next)?.entry;
      const isTrue =
        follower === undefined
          ? hash === through.hash
          : linkHash(hash, linkText({ ...follower, project })) === follower.hash;
      if (!isTrue) return this.#repeated(line, given);
      const what = `Line ${earlier}, as entry ${number}, was inserted: the true one is line ${line}`;
      return broken("inserted", earlier, number, `${what}.`);
    };
    return { sought: [next], judge };
  }

  /** An entry that comes too early. */
  #early(line: number, { number, entry }: EntryLine): Doubt {
    const next = this.#next;
    const what = `Line ${line}, entry ${number} (id ${entry.id})`;
    const judge = ({ entries }: Survey): Broken => {
      const position = entries.get(next)?.line;
      if (position === undefined) return missing(line, next, number);
      if (entries.has(number))
        return broken(
          "inserted",
          line,
          number,
          `${what}, was inserted: it also appears in its own place.`,
        );
      return broken(
        "reordered",
        line,
        number,
        `${what}, comes before entry ${next} (line ${position}).`,
      );
    };
    return { sought: [next, number], judge };
  }

  async #takeCheckpoint(line: number, checkpoint: CheckpointLine): Promise<Doubt | Broken | null> {
    const { number, hash, previous } = checkpoint;
    const signed = this.#signed ?? this.#header.after.number;
    const what = `Line ${line}, the checkpoint of entry ${number},`;
    const fault = await lineFaultOf(checkpoint, this.#header.project, this.#keys);
    if (fault !== null) return broken(fault.trouble, line, number, `${what} ${fault.what}.`);
    if (number <= signed) return broken("inserted", line, number, `${what} was inserted.`);
    if (number > this.#last.number) return this.#earlyCheckpoint(line, number);
    if (number < this.#last.number) return this.#lateCheckpoint(line, number);
    if (hash !== this.#last.hash) {
      if (this.#keys !== null) return this.#writtenAnew(line, number);
      return broken(
        "altered",
        line,
        number,
        `${what} has a different hash than that entry: one of them was altered.`,
      );
    }
    const isPrevious = this.#signed === null ? previous <= signed : previous === signed;
    if (!isPrevious) {
      return broken(
        "missing",
        line,
        previous,
        `The checkpoint of entry ${previous} is missing before line ${line}.`,
      );
    }
    this.#signed = number;
    this.#checkpoints++;
    return null;
  }

  /** A checkpoint too late after its entry: it was moved, or the entry before it was inserted. */
  #lateCheckpoint(line: number, number: number): Doubt {
    const lastLine = this.#lastLine;
    const last = this.#last.number;
    const judge = ({ entries }: Survey): Broken => {
      const position = entries.get(last)?.line;
      if (position !== undefined) {
        return broken(
          "inserted",
          lastLine,
          last,
          `Line ${lastLine}, as entry ${last}, was inserted: the true one is line ${position}.`,
        );
      }
      const what = `Line ${line}, the checkpoint of entry ${number}`;
      return broken("reordered", line, number, `${what}, does not directly follow that entry.`);
    };
    return { sought: [last], judge };
  }

  #earlyCheckpoint(line: number, number: number): Doubt {
    const next = this.#next;
    const what = `Line ${line}, the checkpoint of entry ${number},`;
    const judge = ({ entries, checkpoints }: Survey): Broken => {
      const position = entries.get(next)?.line;
      if (position === undefined) return missing(line, next, number + 1);
      if (checkpoints.has(number)) return broken("inserted", line, number, `${what} was inserted.`);
      return broken(
        "reordered",
        line,
        number,
        `${what} comes before entry ${next} (line ${position}).`,
      );
    };
    return { sought: [next, number], judge };
  }

  /** The chain is consistent, but differs from the signed one. */
  #writtenAnew(line: number, number: number): Broken {
    const from = (this.#signed ?? this.#header.after.number) + 1;
    const what = `Entries ${from} to ${number} are not those that were signed: some of them were rewritten`;
    return broken("altered", line, from, `${what}, along with all hashes after them.`);
  }
}

function missing(line: number, from: number, before: number): Broken {
  return broken(
    "missing",
    line,
    from,
    `${capital(rangeText(from, before - 1))} missing before line ${line}.`,
  );
}

function rangeText(from: number, through: number): string {
  return from === through ? `entry ${from} is` : `entries ${from} to ${through} are`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
