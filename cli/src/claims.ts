// What a token says of itself. Its signature is the platform's business; this is only for asking in time for a new one.

/** When the token ends, in milliseconds since the Unix epoch; infinite when it does not say so. */
export function tokenEndMs(token: string): number {
  const exp = claimsOf(token)["exp"];
  return typeof exp === "number" ? exp * 1000 : Number.POSITIVE_INFINITY;
}

/** The project that a service account's token is for; null for others. */
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
    // No token of ours; the platform will say so.
    return {};
  }
}
