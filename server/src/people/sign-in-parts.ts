// The parts that all ways of signing in share. people.ts builds them once.
import type { Challenges } from "./challenges.ts";
import type { PeopleParts } from "./people-parts.ts";
import type { PeopleSettings } from "./people-settings.ts";
import type { Sessions } from "./sessions.ts";

export type SignInParts = PeopleParts & {
  readonly settings: PeopleSettings;
  readonly sessions: Sessions;
  readonly challenges: Challenges;
};
