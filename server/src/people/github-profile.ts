// Who somebody is at GitHub, and which address of mail GitHub has proven to be theirs.
import { z } from "zod";
import type { Secret } from "#lib/secret.ts";

/** Both answers together. */
const waitMs = 10_000;
const bytesMax = 1_000_000;

const userShape = z.object({ id: z.int(), login: z.string(), name: z.string().nullish() });
const emailsShape = z
  .array(z.object({ email: z.string(), primary: z.boolean(), verified: z.boolean() }))
  .max(1_000);

/**
 * The person whose token it is; null when GitHub does not say. `url`: where GitHub is, as people
 * see it.
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
  const chosen = emails.data.find(({ primary, verified }) => primary && verified) ?? emails.data[0];
  if (chosen === undefined) return null;
  const { id, login, name } = user.data;
  return { id, name: name ?? login, email: chosen.email, emailVerified: chosen.verified };
}

async function ask(url: string, given: { token: Secret; signal: AbortSignal }): Promise<unknown> {
  const response = await fetch(url, {
    headers: {
      authorization: `Bearer ${given.token.reveal()}`,
      accept: "application/vnd.github+json",
      "user-agent": "Slipway",
    },
    redirect: "error",
    signal: given.signal,
  });
  const text = await response.text();
  if (!response.ok || text.length > bytesMax) return null;
  const parsed: unknown = JSON.parse(text);
  return parsed;
}
