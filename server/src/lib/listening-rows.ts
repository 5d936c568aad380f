// Reads the kernel's tables of TCP sockets, for everything that looks for those that listen. Pure.

/** A listening socket: one row of a table. */
export type ListeningRow = {
  /** The local address as the kernel writes it: 8 hexadecimal digits, or 32 for IPv6. */
  readonly address: string;
  readonly port: number;
  /** The user who has opened it. */
  readonly userId: number;
  readonly inode: string;
};

/** The state "listening". */
const listening = "0A";
const addressForm = /^([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4})$/;
/** Where a row has the local address, the state, the user and the inode (proc_net_tcp). */
const addressField = 1;
const stateField = 3;
const userField = 7;
const inodeField = 9;

/** Returns the listening sockets in the text of /proc/net/tcp, /proc/net/tcp6, or both. */
export function listeningRows(tables: string): readonly ListeningRow[] {
  return tables
    .split("\n")
    .map((row) => readRow(row.trim().split(/\s+/)))
    .filter((row) => row !== null);
}

/** Null: the socket does not listen, or the row is a heading. */
function readRow(fields: readonly string[]): ListeningRow | null {
  const [, address, port = ""] = addressForm.exec(fields[addressField] ?? "") ?? [];
  if (fields[stateField] !== listening || address === undefined) return null;
  return {
    address,
    port: Number.parseInt(port, 16),
    userId: Number(fields[userField]),
    inode: fields[inodeField] ?? "",
  };
}
