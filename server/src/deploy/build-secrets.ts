// The secrets that a build gets: those that its settings name, with their values of the moment.
import { buildAgain } from "@slipway/contract/advice.ts";
import type { BuildSecrets } from "#drivers/build-secrets.ts";
import { BuildFailed } from "#drivers/builder.ts";
import { must } from "#lib/assert.ts";
import type { AppId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";

/**
 * Reads all secrets of an app: those of its project and its own. If both have a name, the app's own
 * secret counts.
 */
export type SecretsOf = (appId: AppId) => Promise<Readonly<Record<string, Secret>>>;

/**
 * Reads the secrets with these names. Rejects with `BuildFailed`, which lists the missing ones,
 * when some are not set.
 */
export async function readBuildSecrets(
  names: readonly string[],
  read: () => ReturnType<SecretsOf>,
): Promise<BuildSecrets> {
  if (names.length === 0) return new Map();
  const all = await read();
  const missing = names.filter((name) => !Object.hasOwn(all, name));
  if (missing.length === 0)
    return new Map(names.map((name) => [name, must(all[name], "it was looked for")]));
  const which = missing.length === 1 ? "a secret" : "secrets";
  throw new BuildFailed(
    `Builds of this app need ${which} that neither the app nor its project has: ${missing.join(", ")} (buildSecrets, or secrets below [slipway.build]). Set what is missing (slipway secrets set ${missing[0]}, or the page Secrets), and ${buildAgain}.`,
  );
}
