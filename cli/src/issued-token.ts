// Shared by the commands for tokens: the options of new tokens, and the commands that replace and
// revoke them.
import type { Operand, Option } from "./command.ts";
import { changeCommand, defined, type At } from "./resource.ts";
import { exitCodes, Refused } from "./refused.ts";
import { endOf, secondsOf } from "./life.ts";

/** The option of `… create`. */
export const expiresOption = (byDefault: string) =>
  ({
    expires: { value: "<when>", about: `30d, 12h, a time, or never. Default: ${byDefault}.` },
  }) as const satisfies Record<string, Option>;

/** The options of `… rotate`. */
const rotationOptions = {
  overlap: {
    value: "<time>",
    about:
      "How long the previous token stays valid: 30m, 24h, 7d, or 0 to revoke it now. Default: 24h.",
  },
  expires: {
    value: "<when>",
    about: "When the new token expires. Default: the same lifetime as the previous token.",
  },
} as const satisfies Record<string, Option>;

/** The sentence that is printed before a new token. */
export const tokenText =
  "This is its token. It is shown only once; keep it secret like a password:";

type Rotation = { overlap_seconds?: number; expires_at?: string };

/** The body of a rotation. */
function rotationOf({ given }: At): Rotation {
  const overlap = given.text("overlap");
  const expires = given.text("expires");
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
function rotatedText(name: string, { given }: At): readonly string[] {
  const overlap = given.text("overlap") ?? "24h";
  const beside =
    overlap === "0" ? "the previous one is revoked" : `the previous one stays valid for ${overlap}`;
  return [`Created a new token for ${name}; ${beside}.`, tokenText];
}

/** A kind of thing that has tokens, and what the platform does with one. */
type Kind<One extends Account> = {
  /** The first word of its commands. */
  readonly command: "keys" | "service-accounts";
  readonly noun: string;
  /** The operand that the examples show. */
  readonly example: string;
  readonly operand: Operand;
  /** The command that lists them. */
  readonly list: string;
  items(at: At): Promise<readonly One[]>;
  rotate(
    at: At,
    id: string,
    body: Rotation,
  ): Promise<{ readonly name: string; readonly token: string }>;
  remove(at: At, id: string): Promise<{ readonly name: string }>;
};

/** The commands `… rotate` and `… delete`. */
export function issuedVerbs<One extends Account>(kind: Kind<One>) {
  const { command, noun, example, operand } = kind;
  const idOf = async (at: At): Promise<string> =>
    accountOf(await kind.items(at), at.given.operand(operand.name), { kind: noun, list: kind.list })
      .id;
  return {
    rotate: changeCommand({
      name: `${command} rotate`,
      about: `Print a new token for a ${noun}. The previous token stays valid for the overlap, so that you can deploy the new one.
Only the new token goes to standard output.`,
      examples: [`${command} rotate ${example}`, `${command} rotate ${example} --overlap 7d`],
      of: "project",
      operands: [operand],
      options: rotationOptions,
      async change(at) {
        const body = rotationOf(at);
        return await kind.rotate(at, await idOf(at), body);
      },
      said: ({ name }, at) => rotatedText(name, at),
      result: ({ token }) => token,
    }),
    delete: changeCommand({
      name: `${command} delete`,
      about: `Delete a ${noun}. Its tokens are revoked everywhere within a second.`,
      examples: [`${command} delete ${example} --yes`],
      of: "project",
      operands: [operand],
      question: ({ given }) =>
        `Delete the ${noun} ${given.operand(operand.name)} and revoke its tokens?`,
      change: async (at) => await kind.remove(at, await idOf(at)),
      said: ({ name }) => `Deleted the ${noun} ${name}; its tokens are revoked.`,
    }),
  };
}

type Account = { readonly id: string; readonly name: string; readonly state: string };

/**
 * The account with this id or name; if several share the name, the active one. Throws `Refused`.
 */
function accountOf<One extends Account>(
  accounts: readonly One[],
  named: string,
  { kind, list }: { readonly kind: string; readonly list: string },
): One {
  const byId = accounts.find(({ id }) => id === named);
  if (byId !== undefined) return byId;
  const byName = accounts.filter(({ name, state }) => name === named && state === "active");
  const [only] = byName;
  if (only === undefined) {
    throw new Refused(
      `The project has no active ${kind} "${named}". To list them: slipway ${list}`,
      {
        exitCode: exitCodes.notFound,
      },
    );
  }
  if (byName.length === 1) return only;
  throw new Refused(
    `Several are named "${named}". Use an id instead: ${byName.map(({ id }) => id).join(", ")}`,
  );
}
