// Where a replica of this machine takes calls: at its socket, at a port of a network of its own, or at a port of the
// machine's that somebody else could have taken.
import type { Address } from "#drivers/driver.ts";
import { ListenerOwner } from "./listener-owner.ts";
import { readPid, takeSocket, type ReplicaPaths, type ReplicaRecord } from "./replica-files.ts";

/** Of servers in a shared network. */
export const loopback = "127.0.0.1";

/** What each process of a replica has in its environment. */
export function markerOf(replicaId: string): string {
  return `SLIPWAY_REPLICA_ID=${replicaId}`;
}

/** The address of a server of the replica at `port`. */
function addressAt(paths: ReplicaPaths, record: ReplicaRecord, port: number): Address {
  const { host = loopback, isSandboxed, replicaId } = record;
  if (host !== loopback || process.platform !== "linux") return { host, port };
  const firstPid = isSandboxed ? (readPid(paths)?.pid ?? 0) : null;
  const owner = new ListenerOwner({ firstPid, marker: markerOf(replicaId) });
  return { host, port, isOwn: () => owner.isOwn(port) };
}

/**
 * Where it takes calls, or will. `saidPort`: what the runtime has said; only replicas of older versions have no other address,
 * so null until then.
 */
export function addressOf(paths: ReplicaPaths, record: ReplicaRecord, saidPort: number | undefined): Address | null {
  if (typeof record.socket === "string") return { path: record.socket };
  const port = record.port ?? saidPort;
  return port === undefined || port === 0 ? null : addressAt(paths, record, port);
}

/** What is wrong with the socket of a cortex app that listens; null when nothing is. */
export function socketError(paths: ReplicaPaths, record: ReplicaRecord): string | null {
  return typeof record.socket === "string" && record.isSandboxed ? takeSocket(paths, record.socket) : null;
}
