// Reads claims of a token without verifying its signature, which the platform does. Only used to
// renew a token in time.

/** When the token expires, in milliseconds since the Unix epoch; infinite when it has no expiry. */
export function tokenEndMs(token: string): number {
  const exp = claimsOf(token)["exp"];
  return typeof exp === "number" ? exp * 1000 : Number.POSITIVE_INFINITY;
}

/** The project of a service account's token; null for other tokens. */
export function tokenProject(token: string): string | null {
  const project = claimsOf(token)["projectId"];
  return typeof project === "string" ? project : null;
}

function claimsOf(token: string): Readonly<Record<string, unknown>> {
  try {
    const payload = Buffer.from(token.split(".")[1] ?? "", "base64url").toString();
    const claims: unknown = JSON.parse(payload);
    return typeof claims === "object" && claims !== null ? (claims as Record<string, unknown>) : {};
  } catch {
    // Not one of our tokens; the platform will report that.
    return {};
  }
}
