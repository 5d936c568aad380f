// The TLS certificate of a name, in words: for operators, and for owners of domains.
import type { ReactNode } from "react";
import { Name } from "./name.tsx";
import { counted } from "./quantities.ts";
import { State, Time } from "./show.tsx";

/** A certificate that the platform gets by itself. */
export type Certificate = {
  readonly state: keyof typeof stateWords;
  /** Null: there is none yet. */
  readonly endsAt: string | null;
  readonly nextTryAt: string;
  /** The first failed try since the last success. */
  readonly failingSince: string | null;
  /** Why the last try failed; null: it did not. */
  readonly lastError: string | null;
};

const stateWords = {
  waiting: "being requested",
  valid: "valid",
  failing: "failing",
  ended: "has ended",
  revoking: "being revoked",
} as const;

const dayMs = 86_400_000;

/** Whether somebody should look at it. */
export function isInTrouble({ state }: Pick<Certificate, "state">): boolean {
  return state === "failing" || state === "ended";
}

/** The state of the certificate, in words. */
export function CertificateState({
  of: { state },
}: {
  readonly of: Pick<Certificate, "state">;
}): ReactNode {
  return <State of={stateWords[state]} />;
}

/** When it ends, and how many days are left. */
export function CertificateEnd({ at }: { readonly at: string | null }): ReactNode {
  const daysLeft = at === null ? -1 : Math.floor((Date.parse(at) - Date.now()) / dayMs);
  return (
    <>
      <Time at={at} />
      {daysLeft < 0 ? null : <span className="muted"> ({counted(daysLeft, "day")} left)</span>}
    </>
  );
}

/** When it is requested next; what is due is requested within a minute. */
export function NextTry({ at }: { readonly at: string }): ReactNode {
  return Date.parse(at) <= Date.now() ? "now" : <Time at={at} />;
}

/** Why the last request failed, or none was made; since when, and when the next one is. */
export function CertificateTrouble({ of }: { readonly of: Certificate }): ReactNode {
  const { state, lastError, failingSince, nextTryAt } = of;
  if (lastError === null) return null;
  return (
    <>
      {state === "waiting" ? "Not requested yet" : "The last request failed"}:{" "}
      <Name of={lastError} />.{" "}
      {failingSince === null ? null : (
        <>
          First failed: <Time at={failingSince} />.{" "}
        </>
      )}
      Next try: <NextTry at={nextTryAt} />.
    </>
  );
}
