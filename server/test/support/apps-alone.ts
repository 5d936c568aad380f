// What the use cases of apps are given where nothing else of a platform is there.
import type { useCases } from "#apps/use-cases.ts";
import { systemClock } from "#lib/clock.ts";

/** For `useCases`: everything is possible, and nobody hears of changes. */
export const appsAlone = {
  clock: systemClock,
  providers: [],
  gitHosts: { defaultUrl: "https://github.com/{owner}/{repo}.git", otherUrls: [] },
  projectsPerPerson: 100,
  whyNever: () => null,
  isThere: () => Promise.resolve(true),
  refreshRoute: () => Promise.resolve(),
  personChanged: () => undefined,
  onDeleted: () => undefined,
  onCancelled: () => undefined,
} satisfies Partial<Parameters<typeof useCases>[0]>;
