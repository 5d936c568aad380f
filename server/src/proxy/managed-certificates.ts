// What the listener needs of certificates that the platform gets by itself: the certificates, and
// the proofs that an authority looks for before it issues a certificate.
import type { SecureContext } from "node:tls";

/** A certificate with its chain, and its key, both in PEM. */
export type CertificateTexts = { readonly certificate: string; readonly key: string };

/** Who uses the certificates. Names may begin with `*.`, which stands for one label. */
export type CertificateUser = {
  /** Called with each certificate, and with null when it is gone. */
  take(name: string, texts: CertificateTexts | null): void;
  /** Whether there is another certificate for the name, so that none is requested. */
  isGiven(name: string): boolean;
};

/** Certificates that the platform gets by itself. */
export interface ManagedCertificates {
  /** Hands the user all certificates now, and each that comes or goes later. */
  serve(user: CertificateUser): void;
  readonly proofs: ShownProofs;
}

/** The proofs that are shown at the moment; most of the time, there are none. */
export interface ShownProofs {
  /** What to answer a request for this path over plain HTTP; null: it is no proof of ours. */
  httpAnswer(url: string): string | null;
  /**
   * The certificate that proves the name to an authority that asks for `acme-tls/1`; null: there is
   * no proof of the name.
   */
  tlsAnswer(name: string): SecureContext | null;
}
