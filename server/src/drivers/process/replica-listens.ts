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
export function addressAt(paths: ReplicaPaths, record: ReplicaRecord, port: number): Address {
  const { host = loopback, isSandboxed, replicaId } = record;
  if (host !== loopback || process.platform !== "linux") return { host, port };
  const firstPid = isSandboxed ? (readPid(paths)?.pid ?? 0) : null;
  const owner = new ListenerOwner({ firstPid, marker: markerOf(replicaId) });
  return { host, port, isOwn: () => owner.isOwn(port) };
}

/** The address of a cortex app that says it is ready; `port` is what it says. */
export function readyAddress(
  paths: ReplicaPaths,
  record: ReplicaRecord,
  port: number,
): Address | { readonly error: string } {
  if (typeof record.socket === "string") {
    const error = record.isSandboxed ? takeSocket(paths, record.socket) : null;
    return error === null ? { path: record.socket } : { error };
  }
  if (record.port === null && port === 0) return { error: "the runtime named no usable port" };
  return addressAt(paths, record, record.port ?? port);
}
