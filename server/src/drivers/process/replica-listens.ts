// The address of a replica on this machine: its socket, a port in its own network, or a port of the
// machine that another process could have taken.
import type { Address } from "#drivers/driver.ts";
import { listeningSockets, listensElsewhere } from "#drivers/listening-ports.ts";
import { ListenerOwner } from "./listener-owner.ts";
import { readText } from "./read-text.ts";
import { readPid, takeSocket, type ReplicaPaths, type ReplicaRecord } from "./replica-files.ts";

/** The address of servers in a shared network. */
export const loopback = "127.0.0.1";

/** The marker in the environment of each process of a replica. */
export function markerOf(replicaId: string): string {
  return `SLIPWAY_REPLICA_ID=${replicaId}`;
}

/** The address of the replica's server on `port`. */
function addressAt(paths: ReplicaPaths, record: ReplicaRecord, port: number): Address {
  const { host = loopback, isSandboxed, replicaId } = record;
  if (host !== loopback || process.platform !== "linux") return { host, port };
  // No process has the id 0: until the shell has started, no listener is the replica's own.
  const firstPid = isSandboxed ? (readPid(paths)?.pid ?? 0) : null;
  const owner = new ListenerOwner({ firstPid, marker: markerOf(replicaId) });
  return { host, port, isOwn: () => owner.isOwn(port) };
}

/**
 * Where the replica accepts calls, now or later. `reportedPort`: the port that the runtime
 * reported. Only replicas of older versions need it; for them the result is null until the report.
 */
export function addressOf(
  paths: ReplicaPaths,
  record: ReplicaRecord,
  reportedPort: number | undefined,
): Address | null {
  if (typeof record.socket === "string") return { path: record.socket };
  const port = record.port ?? reportedPort;
  return port === undefined || port === 0 ? null : addressAt(paths, record, port);
}

/**
 * See `Driver.whyUnreached`. Calls also reach a server that listens only on the loopback address.
 */
export function whyUnreached(paths: ReplicaPaths, record: ReplicaRecord): string | null {
  const { host = loopback, port, isSandboxed, replicaId } = record;
  const firstPid = readPid(paths)?.pid;
  if (port === null || firstPid === undefined) return null;
  const tables = (processId: string): string =>
    readText(`/proc/${processId}/net/tcp`) + readText(`/proc/${processId}/net/tcp6`);
  // The server need not listen on all addresses, see above.
  const needsAll = false;
  if (host !== loopback) {
    const socketsOfNetwork = listeningSockets(tables(String(firstPid)));
    return listensElsewhere(socketsOfNetwork, { port, needsAll });
  }
  const owner = new ListenerOwner({
    firstPid: isSandboxed ? firstPid : null,
    marker: markerOf(replicaId),
  });
  const ownSockets = owner.ownOf(listeningSockets(tables("self")));
  return listensElsewhere(ownSockets, { port, needsAll });
}

/**
 * Makes the socket of a cortex app that listens reachable for the platform (see `takeSocket`).
 * Returns the problem, or null.
 */
export function socketError(paths: ReplicaPaths, record: ReplicaRecord): string | null {
  return typeof record.socket === "string" && record.isSandboxed
    ? takeSocket(paths, record.socket)
    : null;
}
