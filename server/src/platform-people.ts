// Connects who may do what: signing keys, the check of tokens, people and their sign-in.
import { SigningKeys } from "#accounts/keys.ts";
import { TokenCheck } from "#accounts/token-check.ts";
import type { MemberParts } from "#api/members.ts";
import { InvitationDesk } from "#people/invitations.ts";
import { MemberDesk } from "#people/members.ts";
import { openPeopleArea, type People } from "#people/people.ts";
import type { Config } from "./config.ts";
import type { Foundation } from "./platform-foundation.ts";

/** Keys and the check of tokens, which the API and the proxy share, and people. */
export type PeopleParts = {
  readonly keys: SigningKeys;
  readonly tokens: TokenCheck;
  readonly people: People;
  readonly membership: MemberParts;
};

/** Opens them; they are closed with the platform. `baseUrl` is asked only once the platform listens. */
export async function openPeople(
  _config: Config,
  foundation: Foundation & { readonly baseUrl: () => string },
): Promise<PeopleParts> {
  const { db, notifications, sealer, lifecycle, log, clock, baseUrl } = foundation;
  const keys = new SigningKeys({ sealer, clock });
  await keys.load(db);
  const people = await openPeopleArea({ db, sealer, keys, clock, log, mailer: null, baseUrl });
  const tokens = new TokenCheck({ db, keys, notifications, clock, people: people.lookup });
  lifecycle.onClose("tokens", () => tokens.close());
  const { mailer } = people;
  const membership: MemberParts = {
    members: new MemberDesk({ db }),
    invitations: new InvitationDesk({ db, clock }),
    postMail: mailer === null ? null : (mail) => mailer.post(mail),
  };
  return { keys, tokens, people, membership };
}
