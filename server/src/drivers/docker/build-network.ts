// Prepares the network in which the engine runs the steps of builds, before each build: sets its
// firewall rules, and keeps the steps apart.
import { buildAgain } from "@slipway/contract/advice.ts";
import { keepFirewall } from "#drivers/app-firewall-machine.ts";
import type { Firewall } from "#drivers/app-firewall.ts";
import { BuildFailed } from "#drivers/builder.ts";
import type { BuildSegment } from "./build-segment.ts";

/** What builds need of the network. */
export type BuildNetwork = {
  /** Rules without which no build begins; null: builds need none. */
  readonly firewall: Firewall | null;
  /** Keeps the steps of builds apart; null: nothing does. */
  readonly segment: BuildSegment | null;
};

/**
 * Sets the rules, and keeps the steps apart until the returned function is called, when the build
 * has ended. Throws `BuildFailed` when rules cannot be set.
 */
export async function enterBuildNetwork({
  firewall,
  segment,
}: BuildNetwork): Promise<() => Promise<void>> {
  try {
    if (firewall !== null) await keepFirewall(firewall);
    return (await segment?.enter()) ?? (() => Promise.resolve());
  } catch (error) {
    throw new BuildFailed(
      `The firewall rules for builds (SLIPWAY_DOCKER_BUILD_NETWORK) cannot be set. The operator has to check nft; then ${buildAgain}.`,
      { cause: error },
    );
  }
}
