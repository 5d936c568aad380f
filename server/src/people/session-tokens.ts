// The form in which a browser or a command line holds a session: its token with a signature. The
// database has only the token, so reading the database is not enough to use a session.
import { createHmac } from "node:crypto";
import { isSameText } from "#lib/same-text.ts";
import { Secret } from "#lib/secret.ts";

/**
 * A refresh token: a session's token, and the signature of 32 bytes, which has 43 letters in
 * base64url.
 */
const form = /^([A-Za-z0-9_-]{16,64})\.([A-Za-z0-9_-]{43})$/;
const signaturePurpose = "slipway-session";

/** Signs and reads session tokens with the secret of auth-secret.ts. */
export class SessionTokens {
  readonly #secret: Secret;

  constructor(secret: Secret) {
    this.#secret = secret;
  }

  /** The refresh token for a session's token. It is also the value of the session cookie. */
  sign(token: string): Secret {
    return new Secret(`${token}.${this.#signature(token)}`);
  }

  /** The session's token in a refresh token; null: the platform has not signed it. */
  read(text: string): string | null {
    const [, token, signature] = form.exec(text) ?? [];
    if (token === undefined || signature === undefined) return null;
    // Compared as text: the last letter has unused bits, and a token must have only one valid form.
    return isSameText(signature, this.#signature(token)) ? token : null;
  }

  /** The session's token in the cookie that better-auth sets in its answer; null: it sets none. */
  setBy(headers: Headers): string | null {
    for (const line of headers.getSetCookie()) {
      const [, value] = /^[\w.-]*session_token=([^;]+)/.exec(line) ?? [];
      // better-auth signs its cookie too: the token stands before the dot.
      const token = value === undefined ? null : decodeURIComponent(value).split(".")[0];
      if (token !== null && token !== undefined && token !== "") return token;
    }
    return null;
  }

  #signature(token: string): string {
    return createHmac("sha256", this.#secret.reveal())
      .update(`${signaturePurpose}:${token}`)
      .digest("base64url");
  }
}
