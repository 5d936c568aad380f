// The possible verdicts on an exported audit log.
import type { ChainPosition, StubLine } from "@slipway/server/src/audit/export/export-format.ts";

/** The fault at a line. "signature": its key is not among the given ones, or it does not match. */
export type Trouble = "altered" | "missing" | "reordered" | "inserted" | "truncated" | "signature";

/** Everything is as written. `areSigned`: the signatures were also checked. */
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

/**
 * `line`: the line in the file; `entry`: the number of the affected entry. `message`: a sentence.
 */
export type Broken = {
  readonly result: "broken";
  readonly trouble: Trouble;
  readonly line: number;
  readonly entry: number | null;
  readonly message: string;
};

/** The file cannot be verified: not an export, another version, or a filtered one. */
export type Unverifiable = { readonly result: "unverifiable"; readonly message: string };

export type Verdict = Intact | Broken | Unverifiable;

/** Creates the verdict for a broken line. */
export function broken(
  trouble: Trouble,
  line: number,
  entry: number | null,
  message: string,
): Broken {
  return { result: "broken", trouble, line, entry, message };
}
