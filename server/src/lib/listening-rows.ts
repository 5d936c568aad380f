// Reads the kernel's tables of TCP sockets, for everything that looks for sockets that listen, or
// for connections that are being opened. Pure.

/** A socket: one row of a table. */
export type SocketRow = {
  /** The local address as the kernel writes it: 8 hexadecimal digits, or 32 for IPv6. */
  readonly address: string;
  readonly port: number;
  /** The user who has opened the socket. */
  readonly userId: number;
  readonly inode: string;
};

/** States of a socket (tcp_states.h of the kernel). */
const listening = "0A";
const synReceived = "03";
const addressForm = /^([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4})$/;
/** Where a row has the local address, the state, the user and the inode (proc_net_tcp). */
const addressField = 1;
const stateField = 3;
const userField = 7;
const inodeField = 9;

/** Returns the listening sockets in the text of /proc/net/tcp, /proc/net/tcp6, or both. */
export function listeningRows(tables: string): readonly SocketRow[] {
  return rowsIn(tables, listening);
}

/** Returns the connections whose clients have yet to send the last packet of the handshake. */
export function openingRows(tables: string): readonly SocketRow[] {
  return rowsIn(tables, synReceived);
}

function rowsIn(tables: string, state: string): readonly SocketRow[] {
  return tables
    .split("\n")
    .map((row) => readRow(row.trim().split(/\s+/), state))
    .filter((row) => row !== null);
}

/** Null: the socket has another state, or the row is a heading. */
function readRow(fields: readonly string[], state: string): SocketRow | null {
  const [, address, port = ""] = addressForm.exec(fields[addressField] ?? "") ?? [];
  if (fields[stateField] !== state || address === undefined) return null;
  return {
    address,
    port: Number.parseInt(port, 16),
    userId: Number(fields[userField]),
    inode: fields[inodeField] ?? "",
  };
}
