// Reads from GitHub who a person is, and which email address GitHub has verified.
import { z } from "zod";
import type { Secret } from "#lib/secret.ts";

/** The time limit for both requests together. */
const waitMs = 10_000;
/** The maximum length of an answer, far longer than either of the two is. */
const bytesMax = 1_000_000;

const userShape = z.object({ id: z.int(), login: z.string(), name: z.string().nullish() });
const emailsShape = z
  .array(z.object({ email: z.string(), primary: z.boolean(), verified: z.boolean() }))
  .max(1_000);

/**
 * The person to whom GitHub gave the token; null when GitHub does not answer as expected. `url` is
 * the address of GitHub's website, or of an installation of GitHub Enterprise.
 */
export async function githubProfile(
  url: string,
  token: Secret,
): Promise<{ id: number; name: string; email: string; emailVerified: boolean } | null> {
  const api = url === "https://github.com" ? "https://api.github.com" : `${url}/api/v3`;
  const signal = AbortSignal.timeout(waitMs);
  const user = userShape.safeParse(await ask(`${api}/user`, { token, signal }));
  const emails = emailsShape.safeParse(await ask(`${api}/user/emails`, { token, signal }));
  if (!user.success || !emails.success) return null;
  // Without a primary address that is verified, the first address counts: provider-gate.ts refuses
  // it if it is not verified.
  const chosen = emails.data.find(({ primary, verified }) => primary && verified) ?? emails.data[0];
  if (chosen === undefined) return null;
  const { id, login, name } = user.data;
  return { id, name: name ?? login, email: chosen.email, emailVerified: chosen.verified };
}

async function ask(
  url: string,
  { token, signal }: { token: Secret; signal: AbortSignal },
): Promise<unknown> {
  try {
    const response = await fetch(url, {
      headers: {
        authorization: `Bearer ${token.reveal()}`,
        accept: "application/vnd.github+json",
        "user-agent": "Slipway",
      },
      redirect: "error",
      signal,
    });
    const text = await response.text();
    if (!response.ok || text.length > bytesMax) return null;
    const parsed: unknown = JSON.parse(text);
    return parsed;
  } catch {
    // The host cannot be reached, redirects, takes too long, or sends a page that is no JSON.
    return null;
  }
}
