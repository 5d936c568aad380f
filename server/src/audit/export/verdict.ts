// What is said of an exported audit log that was verified.
import type { ChainPosition, StubLine } from "./export-format.ts";

/** What is wrong at a line. "signature": it is not by a key that was given, or does not fit. */
export type Trouble = "altered" | "missing" | "reordered" | "inserted" | "truncated" | "signature";

/** All is as it was written. `areSigned`: the signatures were checked as well. */
export type Intact = {
  readonly result: "intact";
  readonly project: string | null;
  readonly exportedAt: string;
  readonly after: ChainPosition;
  readonly through: ChainPosition;
  readonly stub: StubLine | null;
  readonly checkpoints: number;
  readonly areSigned: boolean;
};

/** `line`: where in the file; `entry`: the number of the entry that it is about. `message`: a sentence. */
export type Broken = {
  readonly result: "broken";
  readonly trouble: Trouble;
  readonly line: number;
  readonly entry: number | null;
  readonly message: string;
};

/** It cannot be verified: no export, one of another version, or one that was narrowed. */
export type Unverifiable = { readonly result: "unverifiable"; readonly message: string };

export type Verdict = Intact | Broken | Unverifiable;

/** A place that is not as it should be. */
export function broken(trouble: Trouble, line: number, entry: number | null, message: string): Broken {
  return { result: "broken", trouble, line, entry, message };
}
