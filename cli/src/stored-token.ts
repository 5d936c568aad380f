// Keeps the token of a service account as the sign-in at a platform: `slipway login --token`, and
// `slipway up` after the first start.
import { ApiClient } from "./api-client.ts";
import { tokenProject } from "./claims.ts";
import { projectsOf } from "./connection.ts";
import type { Machine } from "./machine.ts";
import { plain } from "./plain-text.ts";
import { readSignIns, signInFile, writeSignIn } from "./sign-ins.ts";

export type StoredToken = {
  readonly url: string;
  readonly token: string;
  /** Whose it is, for `slipway whoami`. */
  readonly label: string;
};

/**
 * Asks the platform whether it takes the token, keeps it in the place of what was kept for that
 * URL, and says so. Throws `Refused` when the token is not taken.
 */
export async function keepToken(
  { url, token, label }: StoredToken,
  machine: Machine,
): Promise<void> {
  const client = new ApiClient({
    url,
    machine,
    bearer: (isRenewed) => Promise.resolve(isRenewed ? null : token),
  });
  const projects = await projectsOf({ client });
  const before = readSignIns(machine);
  const chosen = projects.find(({ id }) => id === before.platforms[url]?.project);
  const own = chosen ?? projects.find(({ id }) => id === tokenProject(token)) ?? projects[0];
  const signIn = { accessToken: token, refreshToken: "", email: label, project: own?.id ?? null };
  writeSignIn(machine, url, signIn);
  const project = own === undefined ? "" : `, in the project ${plain(own.name)} (${own.id})`;
  machine.tell(
    `Signed in as ${label}${project}. Saved in ${signInFile(machine)}, which only you can read.`,
  );
  if (before.current !== null && before.current !== url) {
    machine.tell(
      `Until now, commands used ${before.current}. To go back: slipway login --url ${before.current}`,
    );
  }
  if ((machine.environment["SLIPWAY_TOKEN"] ?? "") !== "") {
    machine.tell("SLIPWAY_TOKEN is set: commands use it instead, until you unset it.");
  }
}
