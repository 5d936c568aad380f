// Finds which processes listen on a port. Needed where replicas share the machine's network:
// another app may have taken the port of a replica, and must not receive its calls.
import { readdirSync, readlinkSync } from "node:fs";
import { listeningRows } from "#lib/listening-rows.ts";
import { listProcesses, readProcess, unlessExited } from "./process-table.ts";
import { readText } from "./read-text.ts";

/** The processes of one replica. */
export type ReplicaProcesses = {
  /** The first process of the sandbox's own process namespace; null without a sandbox. */
  readonly firstPid: number | null;
  /** A marker in the environment of the replica's processes: `NAME=value`. */
  readonly marker: string;
};

/**
 * Checks the listeners of one replica. Caches the replica's own sockets, since scanning the
 * descriptors of all its processes takes a while.
 */
export class ListenerOwner {
  readonly #processes: ReplicaProcesses;
  readonly #ownSockets = new Set<string>();

  constructor(processes: ReplicaProcesses) {
    this.#processes = processes;
  }

  /** True when something listens on `port` and all listeners belong to the replica. */
  isOwn(port: number): boolean {
    const inodes = listenersAt(port);
    if (inodes.some((inode) => !this.#ownSockets.has(inode))) this.#scan();
    return inodes.length > 0 && inodes.every((inode) => this.#ownSockets.has(inode));
  }

  /** Returns which of `sockets`, all of the platform's network, are the replica's own. */
  ownOf<Socket extends { readonly inode: string }>(sockets: readonly Socket[]): readonly Socket[] {
    this.#scan();
    return sockets.filter(({ inode }) => this.#ownSockets.has(inode));
  }

  #scan(): void {
    this.#ownSockets.clear();
    for (const pid of this.#pids()) {
      for (const inode of socketsOf(pid)) this.#ownSockets.add(inode);
    }
  }

  #pids(): number[] {
    const { firstPid, marker } = this.#processes;
    if (firstPid === null) {
      return listProcesses().filter((pid) => {
        const environment = readProcess(pid)?.environment;
        return Array.isArray(environment) && environment.includes(marker);
      });
    }
    const namespace = namespaceOf(firstPid);
    return namespace === null
      ? []
      : listProcesses().filter((pid) => namespaceOf(pid) === namespace);
  }
}

/**
 * Local addresses that accept a connection to 127.0.0.1, as /proc/net/tcp and tcp6 write them, in
 * the kernel's order: exactly this one, any of IPv4, any of IPv6. With the prefix, an address of
 * IPv4 is written as one of IPv6.
 */
const addressForms = [/^(?:0{16}FFFF0000)?0100007F$/, /^(?:0{16}FFFF0000)?0{8}$/, /^0{32}$/];

/**
 * Inodes of sockets that accept connections to 127.0.0.1 on a port of the platform's own network.
 */
function listenersAt(port: number): string[] {
  const tables = readText("/proc/net/tcp") + readText("/proc/net/tcp6");
  const rows = listeningRows(tables).filter((row) => row.port === port);
  // A listener on another address, such as 127.0.0.2, cannot take the replica's calls.
  for (const form of addressForms) {
    const matching = rows.filter(({ address }) => form.test(address));
    // The kernel prefers these to the listeners of the later forms.
    if (matching.length > 0) return matching.map(({ inode }) => inode);
  }
  return [];
}

/** The inodes of the sockets that a process has open. */
function socketsOf(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  const links = unlessExited(() => readdirSync(folder)).map(
    (name) => readLink(`${folder}/${name}`) ?? "",
  );
  return links.flatMap((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? []);
}

function namespaceOf(pid: number): string | null {
  return readLink(`/proc/${pid}/ns/pid`);
}

/** Where a link of a process leads; null when the process has exited. */
function readLink(path: string): string | null {
  return unlessExited(() => [readlinkSync(path)])[0] ?? null;
}
