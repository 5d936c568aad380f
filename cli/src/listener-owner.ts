// Finds out whose program listens on a port of this machine: the tokens of a data folder are for
// the platform of its owner, and while that does not run, anybody may listen on its port.
import { existsSync, readFileSync, statSync } from "node:fs";
import { listeningRows } from "@slipway/server/src/lib/listening-rows.ts";

/** The kernel's tables of sockets; only Linux has them. */
const tables = ["/proc/net/tcp", "/proc/net/tcp6"];

/**
 * Whether somebody listens on the port of `url` who is neither the owner of `file` nor root. False
 * when nobody listens, and where the system does not say who does.
 */
export function isPortOfStranger(url: string, file: string): boolean {
  const { port, protocol } = new URL(url);
  const usualPort = protocol === "https:" ? 443 : 80;
  const users = listenersOn(port === "" ? usualPort : Number(port));
  const { uid: owner } = statSync(file);
  return users.some((user) => user !== owner && user !== 0);
}

/** The ids of the users who listen on the port, on any address. */
function listenersOn(port: number): number[] {
  const text = tables
    .filter((table) => existsSync(table))
    .map((table) => readFileSync(table, "utf8"))
    .join("");
  return listeningRows(text)
    .filter((row) => row.port === port)
    .map(({ userId }) => userId);
}
