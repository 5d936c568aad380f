// What people can do about an app that was not built or does not start, in the words of every
// message.

/** The advice to build again, to follow words such as "then" and "or". */
export const buildAgain = "build it again (POST …/apps/{app}/builds)";

/** Where a field of an app is changed. */
export const changeField = "PATCH …/apps/{app}";

/** Who reads an advice: whoever asks for an app that does not exist yet, or the owner of one. */
export type Advised = "creator" | "owner";

/**
 * Follows the names of fields that an app can be changed by; a creator corrects the request itself.
 */
export function howToChange(advised: Advised): string {
  return advised === "creator" ? "" : ` (${changeField})`;
}

/** Where a field is changed that a build depends on, such as the repository. */
export const changeAndBuild = `${changeField}, which builds it again`;

/** Why an app that requests compute `asked` cannot run where there is `present`. */
export function missingCompute(
  asked: readonly string[],
  present: readonly string[],
  advised: Advised = "owner",
): string {
  const here = present.length === 0 ? "none" : `only ${present.join(", ")}`;
  return `The app requests compute ${asked.join(" or ")}, but this platform has ${here}. Request a compute type that it has: compute${howToChange(advised)}, or hardware.compute in the TOML file. To try the app without it, the operator can set SLIPWAY_SIMULATE_COMPUTE=true.`;
}
