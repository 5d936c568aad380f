// Finds out whose program listens on a port of this machine: the tokens of a data folder are for
// the platform of its owner, and while that does not run, anybody may listen on its port.
import { existsSync, readFileSync, statSync } from "node:fs";

/** The kernel's tables of sockets; only Linux has them. */
const tables = ["/proc/net/tcp", "/proc/net/tcp6"];
/** The state "listening" in these tables. */
const listening = "0A";

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
  const rows = tables
    .filter((table) => existsSync(table))
    .flatMap((table) => readFileSync(table, "utf8").split("\n"));
  const users: number[] = [];
  for (const row of rows) {
    const [, local = "", , state, , , , user] = row.trim().split(/\s+/);
    const portText = local.slice(local.indexOf(":") + 1);
    if (state === listening && Number.parseInt(portText, 16) === port) users.push(Number(user));
  }
  return users;
}
