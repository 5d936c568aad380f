// Decides what DNS says about a claim of a name, and what follows from it. Pure.
//
// A CNAME record proves the name for the app whose own host name it leads to, which contains the
// project's id. A CNAME record that leads to the platform's host proves nothing, since it does not
// say for which app. Such a name needs the TXT record with the token of the claim. See
// docs/decisions/0055-domains-of-apps.md.
import type { DomainState } from "@slipway/contract/words.ts";
import { oneLine } from "#lib/one-line.ts";
import { challengeLabel } from "./domain-name.ts";

/** What DNS has. A member is null when DNS did not answer. */
export type DnsRecords = {
  /** Where the CNAME record of the name leads; empty: there is none. */
  readonly cnames: readonly string[] | null;
  /** The TXT records of the challenge; empty: there are none. */
  readonly texts: readonly string[] | null;
};

/** What a claim expects of DNS. */
type Expected = {
  readonly name: string;
  readonly token: string;
  /** The app's own host name; null: it has none. */
  readonly appHost: string | null;
};

/** A claim, with its times in milliseconds since 1970. */
export type DomainClaim = Expected & {
  readonly state: DomainState;
  readonly pendingSinceMs: number;
  /** Since when the proof is missing; null: it was there at the last check that DNS answered. */
  readonly missingSinceMs: number | null;
};

/** `unknown`: DNS did not answer, so that nothing changes. */
export type Verdict = "proven" | "missing" | "unknown";

/** What a claim becomes by a check. */
export type CheckedClaim = {
  readonly state: DomainState;
  /**
   * What DNS has instead of the proof, or why the proof does not count; null: the name is proven.
   */
  readonly found: string | null;
  readonly missingSinceMs: number | null;
  /** When the claim is to be checked again; null: never, since it has failed. */
  readonly checkAtMs: number | null;
  /** Whether the name passes to this claim, so that the claim that had it until now fails. */
  readonly isTakenOver: boolean;
};

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
/** How long a name may take to be proven. */
const provingMs = 2 * dayMs;
/** The longest wait between two checks of a name that is to be proven. */
const pendingEveryMs = 30 * minuteMs;
/** How often a proven name is checked. */
const provenEveryMs = dayMs;
/** How often a proven name is checked whose proof was not found. */
const missingEveryMs = hourMs;
/** How long a name is kept whose proof is gone. */
const graceMs = 7 * dayMs;
/** The maximum length of a record in a message. */
const shownMax = 100;

/** When the claim fails if nothing changes; null: it has failed, or nothing is missing. */
export function failsAtMs({ state, pendingSinceMs, missingSinceMs }: DomainClaim): number | null {
  if (state === "Pending") return pendingSinceMs + provingMs;
  return state === "Failed" || missingSinceMs === null ? null : missingSinceMs + graceMs;
}

/** Whether these records prove the name. */
export function verdictOn({ token, appHost }: Expected, { cnames, texts }: DnsRecords): Verdict {
  const hasCname = appHost !== null && cnames?.includes(appHost) === true;
  if (hasCname || texts?.includes(token) === true) return "proven";
  return cnames === null || texts === null ? "unknown" : "missing";
}

/**
 * What the claim becomes. `holder`: the other claim that has the name now; null: there is none.
 * The holder keeps the name as long as its own proof may be there.
 */
export function checkedClaim(
  claim: DomainClaim,
  {
    holder,
    records,
    nowMs,
  }: {
    readonly holder: Expected | null;
    readonly records: DnsRecords;
    readonly nowMs: number;
  },
): CheckedClaim {
  const verdict = verdictOn(claim, records);
  const isHeld = holder !== null && verdictOn(holder, records) !== "missing";
  if (verdict === "proven" && !isHeld) {
    return {
      state: "Validated",
      found: null,
      missingSinceMs: null,
      checkAtMs: nowMs + provenEveryMs,
      isTakenOver: holder !== null,
    };
  }
  const found = verdict === "proven" ? heldText : foundText(claim, records);
  // The first check that misses the proof begins the grace period.
  const isMissing = claim.state === "Validated" && verdict === "missing";
  const missingSinceMs = isMissing ? (claim.missingSinceMs ?? nowMs) : claim.missingSinceMs;
  const missed = { found, missingSinceMs, isTakenOver: false } as const;
  const endMs = failsAtMs({ ...claim, missingSinceMs });
  // Without an answer of DNS, a proven name stays proven: the fault may be the platform's. The time
  // of a pending claim ends all the same.
  const mayEnd = claim.state === "Pending" || verdict === "missing";
  if (claim.state === "Failed" || (mayEnd && endMs !== null && nowMs >= endMs))
    return { ...missed, state: "Failed", missingSinceMs: null, checkAtMs: null };
  // The wait grows with the age of the claim: people look at a name that they have just added, so
  // the first checks follow each other closely.
  const ageMs = Math.max(minuteMs, nowMs - claim.pendingSinceMs);
  const waitMs = claim.state === "Pending" ? Math.min(ageMs, pendingEveryMs) : missingEveryMs;
  return { ...missed, state: claim.state, checkAtMs: nowMs + waitMs };
}

const heldText =
  "the record is there, but the name belongs to another app, whose own record may still be there: remove that one";

/** Says what DNS has instead of the proof. */
function foundText({ name, appHost }: Expected, { cnames, texts }: DnsRecords): string {
  const challenge = `${challengeLabel}.${name}`;
  const parts = appHost === null ? [] : [recordText("CNAME", name, cnames)];
  return [...parts, recordText("TXT", challenge, texts)].join("; ");
}

function recordText(type: string, name: string, values: DnsRecords["texts"]): string {
  if (values === null) return `DNS did not answer what ${type} records ${name} has`;
  const [first] = values;
  if (first === undefined) return `${name} has no ${type} record`;
  const more = values.length === 1 ? "" : ` and ${values.length - 1} more`;
  return `the ${type} record of ${name} is ${JSON.stringify(oneLine(first).slice(0, shownMax))}${more}`;
}
