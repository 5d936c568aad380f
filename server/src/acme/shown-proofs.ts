// The proofs that the listener shows to an authority: answers over plain HTTP (HTTP-01), and
// certificates of the protocol acme-tls/1 (TLS-ALPN-01, RFC 8737). They are in memory: an authority
// that asks after a restart finds nothing, and the order is tried again.
import { createSecureContext, type SecureContext } from "node:tls";
import acme, { type Authorization } from "acme-client";
import type { Proof, Prover } from "./authority.ts";

const path = "/.well-known/acme-challenge/";

/** The proofs that are shown at the moment. */
export class Proofs {
  readonly #answers = new Map<string, string>();
  readonly #contexts = new Map<string, SecureContext>();

  /** The answer to a request for this path; null: it is no proof of ours. */
  httpAnswer(url: string): string | null {
    if (this.#answers.size === 0 || !url.startsWith(path)) return null;
    return this.#answers.get(url.slice(path.length)) ?? null;
  }

  /** The certificate that proves the name; null: no such proof of it is shown now. */
  tlsAnswer(name: string): SecureContext | null {
    return this.#contexts.get(name.toLowerCase()) ?? null;
  }

  /** Shows proofs over plain HTTP, where the authority asks at port 80. */
  overHttp(): Prover {
    return {
      kind: "http-01",
      show: async ({ token, answer }) => void this.#answers.set(token, answer),
      hide: async ({ token }) => void this.#answers.delete(token),
    };
  }

  /** Shows proofs in the handshake of TLS, where the authority asks at port 443. */
  overTls(): Prover {
    return {
      kind: "tls-alpn-01",
      show: async (proof) => void this.#contexts.set(proof.name, await contextOf(proof)),
      hide: async ({ name }) => void this.#contexts.delete(name),
    };
  }
}

async function contextOf({ name, answer }: Proof): Promise<SecureContext> {
  const ownKey = await acme.crypto.createPrivateEcdsaKey();
  // The library reads nothing else of the authorization.
  const authorization = { identifier: { type: "dns", value: name } } as Authorization;
  const [key, cert] = await acme.crypto.createAlpnCertificate(authorization, answer, ownKey);
  return createSecureContext({ key, cert });
}
