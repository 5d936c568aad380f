// Says in a sentence why an outward call failed, from the error's code alone: Node's messages
// contain addresses, and the user who gave a name must not learn the address behind it.

/** The error of a refused or impossible call; the message is a sentence for users. */
export class OutwardRefused extends Error {
  override readonly name = "OutwardRefused";
}

/** Why a call failed, by the code of the error. `its` means the receiver's. */
const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there: the connection was refused",
  ECONNRESET: "the receiver closed the connection without an answer",
  EPIPE: "the receiver closed the connection without an answer",
  ETIMEDOUT: "no connection could be made",
  EHOSTUNREACH: "there is no route to its address",
  ENETUNREACH: "there is no route to its address",
  EADDRNOTAVAIL: "there is no route to its address",
  ENOTFOUND: "its name is unknown",
  ENODATA: "its name has no address",
  EAI_AGAIN: "its name could not be looked up",
  HPE_HEADER_OVERFLOW: "the head of its answer is too long",
  CERT_HAS_EXPIRED: "its certificate has expired",
  CERT_NOT_YET_VALID: "its certificate is not valid yet",
  CERT_REVOKED: "its certificate was revoked",
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another name",
  DEPTH_ZERO_SELF_SIGNED_CERT: "its certificate is self-signed",
  SELF_SIGNED_CERT_IN_CHAIN: "its certificate is not signed by a known authority",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "its certificate is not signed by a known authority",
  UNABLE_TO_GET_ISSUER_CERT: "its certificate is not signed by a known authority",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "its certificate is not signed by a known authority",
  EPROTO: "no TLS connection could be made",
  ERR_INVALID_CHAR: "a header field has a character that may not be sent",
};

/** Returns the reason as a sentence, without a full stop. */
export function reasonOf(error: unknown): string {
  if (error instanceof OutwardRefused) return error.message;
  const code = codeOf(error);
  const known = reasons[code];
  if (known !== undefined) return known;
  if (code.startsWith("HPE_")) return "its answer is not HTTP/1.1";
  if (/^ERR_(SSL|TLS)_/.test(code)) return "no TLS connection could be made";
  return code === "" ? "the call broke off" : `the call broke off (${code})`;
}

/**
 * Returns the code of a Node error, or of the first error when several addresses were tried; empty
 * when there is no code.
 */
export function codeOf(error: unknown): string {
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error;
  const code: unknown = first instanceof Error && "code" in first ? first.code : "";
  // A text of another form is no code of Node, and might contain an address.
  return typeof code === "string" && /^[A-Z0-9_]{1,60}$/.test(code) ? code : "";
}
