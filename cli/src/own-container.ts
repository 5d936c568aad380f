// The platform's own image, whose containers have the platform as their main process: it is started
// and ended with the container, on the machine, and its log is the container's.
import type { Machine } from "./machine.ts";
import { Refused } from "./refused.ts";

/** Whether this command line is in a container of the image, which says so itself. */
export function isInOwnContainer({ environment }: Pick<Machine, "environment">): boolean {
  return environment["SLIPWAY_CONTAINER"] === "true";
}

/** Throws `Refused` in such a container; `word`: what to do with the container instead. */
export function refuseInOwnContainer(machine: Machine, word: "stop" | "restart"): void {
  if (!isInOwnContainer(machine)) return;
  throw new Refused(
    `This is the platform's container, which ends with the platform. On the machine: docker ${word} <container>, or docker compose ${word} platform. Apps keep running meanwhile.`,
  );
}
