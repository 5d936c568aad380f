// Whose is the socket that listens at a port? Asked where replicas share the machine's network: another app may have taken
// the port that a replica was given, and must get none of its calls.
import { readdirSync, readlinkSync } from "node:fs";
import { listProcesses, readProcess } from "./process-table.ts";
import { readText } from "./read-text.ts";

/** State 0A of proc_net_tcp: listening. */
const listening = "0A";
const inodeField = 9;

/** The processes of one replica. */
export type ReplicaProcesses = {
  /** The first process of the sandbox's own process namespace; null without a sandbox. */
  readonly firstPid: number | null;
  /** What its processes have in their environment: `NAME=value`. */
  readonly marker: string;
};

/** Answers for one replica; remembers which sockets are its own, since a look through all its descriptors takes a while. */
export class ListenerOwner {
  readonly #processes: ReplicaProcesses;
  readonly #own = new Set<string>();

  constructor(processes: ReplicaProcesses) {
    this.#processes = processes;
  }

  /** True when something listens at `port` and all that does belongs to the replica. */
  isOwn(port: number): boolean {
    const inodes = listenersAt(port);
    if (inodes.some((inode) => !this.#own.has(inode))) this.#look();
    return inodes.length > 0 && inodes.every((inode) => this.#own.has(inode));
  }

  #look(): void {
    this.#own.clear();
    for (const pid of this.#pids()) for (const inode of socketsOf(pid)) this.#own.add(inode);
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
    return namespace === null ? [] : listProcesses().filter((pid) => namespaceOf(pid) === namespace);
  }
}

/** Addresses whose listener gets a connection to 127.0.0.1, as the kernel chooses: exact, any of IPv4, any of IPv6. */
const addressForms = [/^(?:0{16}FFFF0000)?0100007F$/, /^(?:0{16}FFFF0000)?0{8}$/, /^0{32}$/];

/** Inodes of the sockets that listen for connections to 127.0.0.1 at a port of the platform's own network. */
function listenersAt(port: number): string[] {
  const end = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const rows = ["tcp", "tcp6"]
    .flatMap((name) => readText(`/proc/net/${name}`).split("\n"))
    .map((row) => row.trim().split(/\s+/))
    .filter((row) => row[3] === listening && row[1]?.endsWith(end));
  const found = addressForms.map((form) => rows.filter((row) => form.test(row[1]?.slice(0, -end.length) ?? "")));
  // Nobody who listens at another address, as at 127.0.0.2, can keep a replica from its calls.
  return (found.find((some) => some.length > 0) ?? []).map((row) => row[inodeField] ?? "");
}

function socketsOf(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  try {
    return readdirSync(folder).flatMap(
      (name) => /^socket:\[(\d+)\]$/.exec(readLink(`${folder}/${name}`) ?? "")?.[1] ?? [],
    );
  } catch {
    return []; // It has ended.
  }
}

function namespaceOf(pid: number): string | null {
  return readLink(`/proc/${pid}/ns/pid`);
}

function readLink(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}
