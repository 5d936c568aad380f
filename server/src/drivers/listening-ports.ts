// Finds the ports on which a replica listens in the kernel's tables, and says so when it is called
// on another port. Pure.

/** A socket that listens: one row of a table. */
export type ListeningSocket = {
  readonly port: number;
  readonly isLoopback: boolean;
  readonly inode: string;
};

/** The state "listening" in /proc/net/tcp. */
const listening = "0A";
/** Where a row of /proc/net/tcp has the state and the inode of its socket. */
const stateField = 3;
const inodeField = 9;
/** The address of the engine's own name server, 127.0.0.11, as the kernel writes it. */
const engineNameServer = "0B00007F";
/** The loopback addresses as the kernel writes them: 127.0.0.0/8, also in IPv6 form, and ::1. */
const loopbackForm = /^(?:(?:0{16}FFFF0000)?[0-9A-F]{6}7F|0{24}01000000)$/;
/** The maximum number of ports that a sentence names. */
const portsMax = 5;

/** Returns the listening sockets in the text of /proc/net/tcp and tcp6. */
export function listeningSockets(tables: string): readonly ListeningSocket[] {
  return tables
    .split("\n")
    .map((row) => socketIn(row))
    .filter((socket) => socket !== null);
}

/** Returns the socket in a row; null when it does not listen, or is not the app's. */
function socketIn(row: string): ListeningSocket | null {
  const fields = row.trim().split(/\s+/);
  const [, localAddress = ""] = fields;
  const match = /^([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4})$/.exec(localAddress);
  if (fields[stateField] !== listening || match === null) return null;
  const [, address = "", port = ""] = match;
  if (address === engineNameServer) return null;
  return {
    port: Number.parseInt(port, 16),
    isLoopback: loopbackForm.test(address),
    inode: fields[inodeField] ?? "",
  };
}

/**
 * Returns a sentence for the app's owner that says where the app listens instead of on `port`; null
 * when it listens there, or nowhere. `needsAll`: a server on the loopback address gets no calls.
 */
export function listensElsewhere(
  sockets: readonly ListeningSocket[],
  { port, needsAll }: { readonly port: number; readonly needsAll: boolean },
): string | null {
  const isReached = ({ isLoopback }: ListeningSocket): boolean => !(needsAll && isLoopback);
  const onPort = sockets.filter((socket) => socket.port === port);
  if (onPort.some(isReached)) return null;
  if (onPort.length > 0)
    return `It listens on port ${port} of 127.0.0.1 only, where no call reaches it: have it listen on 0.0.0.0.`;
  const ports = [...new Set(sockets.map((socket) => socket.port))].toSorted(
    (first, second) => first - second,
  );
  const [only] = ports;
  if (only === undefined) return null;
  const limit = sockets.some(isReached) ? "" : " of 127.0.0.1 only";
  const remedy = limit === "" ? "" : " and have it listen on 0.0.0.0";
  if (ports.length === 1)
    return `It listens on port ${only}${limit}: set port = ${only}${remedy}, or have it listen on ${port}.`;
  const named = ports.slice(0, portsMax).join(", ");
  return `It listens on the ports ${named}${limit}: set port to the one that is to be called${remedy}, or have it listen on ${port}.`;
}
