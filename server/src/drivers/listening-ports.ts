// Finds in the kernel's tables the ports on which a replica listens, and words the hint for the
// app's owner when calls go to another port. Pure.
import { listeningRows } from "#lib/listening-rows.ts";

/** A socket that listens: one row of a table. */
export type ListeningSocket = {
  readonly port: number;
  readonly isLoopback: boolean;
  readonly inode: string;
};

/** The address of the engine's own name server, 127.0.0.11, as the kernel writes it. */
const engineNameServer = "0B00007F";
/** The loopback addresses as the kernel writes them: 127.0.0.0/8, also in IPv6 form, and ::1. */
const loopbackForm = /^(?:(?:0{16}FFFF0000)?[0-9A-F]{6}7F|0{24}01000000)$/;
/** The maximum number of ports that a sentence names. */
const portsMax = 5;

/** Returns the app's listening sockets in the text of /proc/net/tcp and tcp6. */
export function listeningSockets(tables: string): readonly ListeningSocket[] {
  return listeningRows(tables)
    .filter(({ address }) => address !== engineNameServer)
    .map(({ address, port, inode }) => ({ port, isLoopback: loopbackForm.test(address), inode }));
}

/**
 * Returns a sentence for the app's owner that says where the app listens instead of on `port`; null
 * when it listens there, or nowhere. `needsAll`: the app must listen on all addresses, since no
 * call reaches a server on the loopback address.
 */
export function listensElsewhere(
  sockets: readonly ListeningSocket[],
  { port, needsAll }: { readonly port: number; readonly needsAll: boolean },
): string | null {
  const isReached = ({ isLoopback }: ListeningSocket): boolean => !needsAll || !isLoopback;
  const onPort = sockets.filter((socket) => socket.port === port);
  if (onPort.some(isReached)) return null;
  if (onPort.length > 0)
    return `It listens on port ${port} of 127.0.0.1 only, where no call reaches it: have it listen on 0.0.0.0.`;
  const ports = [...new Set(sockets.map((socket) => socket.port))].toSorted(
    (first, second) => first - second,
  );
  const [firstPort] = ports;
  if (firstPort === undefined) return null;
  const limit = sockets.some(isReached) ? "" : " of 127.0.0.1 only";
  const remedy = limit === "" ? "" : " and have it listen on 0.0.0.0";
  if (ports.length === 1)
    return `It listens on port ${firstPort}${limit}: set port = ${firstPort}${remedy}, or have it listen on ${port}.`;
  const named = ports.slice(0, portsMax).join(", ");
  return `It listens on the ports ${named}${limit}: set port to the one that is to be called${remedy}, or have it listen on ${port}.`;
}
