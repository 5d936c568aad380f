// What the platform needs from an authority that issues certificates by ACME (RFC 8555).
// `acme-authority.ts` is the real one.

/** The proof that the platform rules a name, as the authority asks for it. */
export type Proof = {
  readonly name: string;
  readonly token: string;
  /** What the authority must find: for a DNS record its value, else the key authorization. */
  readonly answer: string;
};

/** The kinds of proofs, as the authorities call them. */
export type ProofKind = "http-01" | "tls-alpn-01" | "dns-01";

/** Shows a proof to the authority. */
export interface Prover {
  readonly kind: ProofKind;
  /** Resolves when the authority can see the proof. */
  show(proof: Proof, signal: AbortSignal): Promise<void>;
  /** Takes the proof away again; also called when `show` has failed. */
  hide(proof: Proof): Promise<void>;
}

export type CertificateOrder = {
  readonly name: string;
  /** The key of the certificate, in PEM. */
  readonly key: string;
  /** The URL of the order that was made before; null: a new order is made. */
  readonly url: string | null;
  /** Called with the URL of a new order, before anything is proven. */
  readonly onOrder: (url: string) => Promise<void>;
  readonly prover: Prover;
  readonly signal: AbortSignal;
};

/** Reasons to revoke a certificate, with their numbers in RFC 5280. */
export const revocationReasons = {
  unspecified: 0,
  key_compromise: 1,
  affiliation_changed: 3,
  superseded: 4,
  cessation_of_operation: 5,
} as const;

export type RevocationReason = keyof typeof revocationReasons;

/** An authority. Its methods reject with `AuthorityError` when it refuses or does not answer. */
export interface Authority {
  /** Resolves with the certificate and its chain, in PEM. */
  issue(order: CertificateOrder): Promise<string>;
  /** `chain` begins with the certificate, in PEM. */
  revoke(chain: string, reason: RevocationReason): Promise<void>;
}

/** Why there is no certificate, as a sentence for the operator. */
export class AuthorityError extends Error {
  override readonly name = "AuthorityError";
  /** The error's type at the authority without its prefix, such as `rateLimited`; null: none. */
  readonly type: string | null;
  /** How long the authority asks to wait; 0: it does not say. */
  readonly retryAfterMs: number;

  constructor(
    message: string,
    { type = null, retryAfterMs = 0 }: { type?: string | null; retryAfterMs?: number } = {},
  ) {
    super(message);
    this.type = type;
    this.retryAfterMs = retryAfterMs;
  }
}
