// Finds out whose program listens at an address of this machine: the tokens of a data folder are
// for the platform of its owner, and while that does not run, anybody may listen there.
import { existsSync, readFileSync, statSync } from "node:fs";
import { listenersAt } from "@slipway/server/src/lib/listeners-at.ts";

/** The kernel's tables of sockets; only Linux has them. */
const tables = ["/proc/net/tcp", "/proc/net/tcp6"];

/**
 * Who listens where `url` leads: the owner of `file` or root, somebody else, or nobody. Where the
 * system does not say who does, it counts as the owner. Tokens are sent to the owner only: somebody
 * else may begin to listen where nobody does.
 */
export function listenerOf(url: string, file: string): "owner" | "stranger" | "nobody" {
  const readable = tables.filter((table) => existsSync(table));
  if (readable.length === 0) return "owner";
  const { hostname, port, protocol } = new URL(url);
  const usualPort = protocol === "https:" ? 443 : 80;
  const rows = listenersAt(readable.map((table) => readFileSync(table, "utf8")).join(""), {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? usualPort : Number(port),
  });
  if (rows.length === 0) return "nobody";
  const { uid: owner } = statSync(file);
  return rows.every(({ userId }) => userId === owner || userId === 0) ? "owner" : "stranger";
}
