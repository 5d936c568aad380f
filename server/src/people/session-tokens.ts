// What a browser or a command line holds of a session: its token with a signature. The database has
// the token alone, so whoever reads the database can sign in as nobody.
import { createHmac } from "node:crypto";
import { isSameText } from "#lib/same-text.ts";
import { Secret } from "#lib/secret.ts";

const form = /^([A-Za-z0-9_-]{16,64})\.([A-Za-z0-9_-]{43})$/;
const signaturePurpose = "slipway-session";

/** Signs and reads them with the secret of auth-secret.ts. */
export class SessionTokens {
  readonly #secret: Secret;

  constructor(secret: Secret) {
    this.#secret = secret;
  }

  /** The refresh token, which is also the value of the cookie. */
  sign(token: string): Secret {
    return new Secret(`${token}.${this.#signature(token)}`);
  }

  /** The session's token; null when it was not signed here. */
  read(text: string): string | null {
    const [, token, signature] = form.exec(text) ?? [];
    if (token === undefined || signature === undefined) return null;
    // As text: the last letter has bits that say nothing, and a token is to have one form only.
    return isSameText(signature, this.#signature(token)) ? token : null;
  }

  /** What better-auth sets as the session's cookie in its answer: the session's token, or null. */
  setBy(headers: Headers): string | null {
    for (const line of headers.getSetCookie()) {
      const [, value] = /^[\w.-]*session_token=([^;]+)/.exec(line) ?? [];
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
