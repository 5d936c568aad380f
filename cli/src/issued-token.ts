// Shared by the commands for tokens: the options of new tokens, the account that was named, and what is said of it.
import type { Option } from "./command.ts";
import { defined, type At } from "./resource.ts";
import { exitCodes, Refused } from "./refused.ts";
import { endOf, secondsOf } from "./life.ts";

/** The option of `… create`. */
export const expiresOption = (byDefault: string) =>
  ({
    expires: { value: "<when>", about: `30d, 12h, a time, or never. Default: ${byDefault}.` },
  }) as const satisfies Record<string, Option>;

/** The options of `… rotate`. */
export const rotationOptions = {
  overlap: {
    value: "<time>",
    about: "How long the previous token stays valid: 30m, 24h, 7d, or 0 to revoke it now. Default: 24h.",
  },
  expires: { value: "<when>", about: "When the new token expires. Default: the same lifetime as the previous token." },
} as const satisfies Record<string, Option>;

/** Said before a token. */
export const tokenText = "This is its token. It is shown only once; keep it secret like a password:";

/** The body of a rotation. */
export function rotationOf({ given }: At): { overlap_seconds?: number; expires_at?: string } {
  const [overlap, expires] = [given.text("overlap"), given.text("expires")];
  return defined({
    overlap_seconds: overlap === undefined ? undefined : secondsOf(overlap, "--overlap"),
    // Null is allowed here, and means never; the types of the routes do not say so.
    expires_at: expires === undefined ? undefined : (expiryOf(expires) as string),
  });
}

/** The value of `--expires` as a time; null: never. */
export function expiryOf(text: string): string | null {
  return endOf(text, { option: "--expires", nowMs: Date.now() });
}

/** Said of a rotated token. */
export function rotatedText(name: string, { given }: At): readonly string[] {
  const overlap = given.text("overlap") ?? "24h";
  const beside = overlap === "0" ? "the previous one is revoked" : `the previous one stays valid for ${overlap}`;
  return [`Created a new token for ${name}; ${beside}.`, tokenText];
}

type Account = { readonly id: string; readonly name: string; readonly state: string };

/** The account with this id or name; if several share the name, the active one. Throws `Refused`. */
export function accountOf<One extends Account>(
  accounts: readonly One[],
  named: string,
  { kind, list }: { readonly kind: string; readonly list: string },
): One {
  const byId = accounts.find(({ id }) => id === named);
  if (byId !== undefined) return byId;
  const byName = accounts.filter(({ name, state }) => name === named && state === "active");
  const [only] = byName;
  if (only === undefined) {
    throw new Refused(`The project has no active ${kind} "${named}". To list them: slipway ${list}`, {
      exitCode: exitCodes.notFound,
    });
  }
  if (byName.length === 1) return only;
  throw new Refused(`Several are named "${named}". Use an id instead: ${byName.map(({ id }) => id).join(", ")}`);
}
