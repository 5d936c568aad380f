// Finds in the kernel's tables of a replica where it listens, and says so when that is not where it
// is called. Pure.

/** One row: a socket that listens. */
export type ListeningSocket = {
  readonly port: number;
  readonly isLoopback: boolean;
  readonly inode: string;
};

/** State 0A of proc_net_tcp: listening. */
const listening = "0A";
const inodeField = 9;
/** 127.0.0.0/8, also as an IPv6 address, and ::1, as the kernel writes them. */
const loopbackForm = /^(?:(?:0{16}FFFF0000)?[0-9A-F]{6}7F|0{24}01000000)$/;
/** Ports named in a sentence. */
const portsMax = 5;

/** The listening sockets in the text of /proc/net/tcp and tcp6. */
export function listeningSockets(tables: string): readonly ListeningSocket[] {
  return tables.split("\n").flatMap((row) => {
    const fields = row.trim().split(/\s+/);
    const [, at = ""] = fields;
    const found = /^([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4})$/.exec(at);
    if (fields[3] !== listening || found === null) return [];
    const [, address = "", port = ""] = found;
    // The engine answers questions for names there.
    if (address === "0B00007F") return [];
    return [
      {
        port: Number.parseInt(port, 16),
        isLoopback: loopbackForm.test(address),
        inode: fields[inodeField] ?? "",
      },
    ];
  });
}

/**
 * A sentence for the app's owner: where it listens instead of on `port`. Null when it listens
 * there, or nowhere. `needsAll`: a server on the loopback address gets no calls.
 */
export function listensElsewhere(
  sockets: readonly ListeningSocket[],
  { port, needsAll }: { readonly port: number; readonly needsAll: boolean },
): string | null {
  const isReached = ({ isLoopback }: ListeningSocket): boolean => !(needsAll && isLoopback);
  const here = sockets.filter((socket) => socket.port === port);
  if (here.some(isReached)) return null;
  if (here.length > 0)
    return `It listens on port ${port} of 127.0.0.1 only, where no call reaches it: have it listen on 0.0.0.0.`;
  const ports = [...new Set(sockets.map((socket) => socket.port))].toSorted(
    (one, other) => one - other,
  );
  const [only] = ports;
  if (only === undefined) return null;
  const host = sockets.some(isReached) ? "" : " of 127.0.0.1 only";
  const address = host === "" ? "" : " and have it listen on 0.0.0.0";
  if (ports.length === 1)
    return `It listens on port ${only}${host}: set port = ${only}${address}, or have it listen on ${port}.`;
  const named = ports.slice(0, portsMax).join(", ");
  return `It listens on the ports ${named}${host}: set port to the one that is to be called${address}, or have it listen on ${port}.`;
}
