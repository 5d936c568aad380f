// Reads the header with which a load balancer begins a connection, to say whose connection it
// passes on: that of the PROXY protocol, version 1 (a line) or 2 (binary). Extensions of version 2
// are skipped. Pure. The format: https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt
import ipaddr from "ipaddr.js";
import { isIP } from "node:net";
import { plainAddress } from "#lib/client-address.ts";

/** What the header says. */
export type ClientHeader = {
  /** How many bytes it has; the client's bytes are behind it. */
  readonly length: number;
  /** Null: the balancer itself is the client, such as for a health check. */
  readonly client: {
    /** Undefined: the balancer does not know it, or it is no address of IPv4 or IPv6. */
    readonly address: string | undefined;
  } | null;
};

/** What is longer is refused; senders keep to it, so that the header arrives in one packet. */
export const clientHeaderBytesMax = 536;

const lineStart = Buffer.from("PROXY ");
const lineEnd = "\r\n";
/** The longest line of the specification, with its end. */
const lineBytesMax = 107;
const lineForm = /^PROXY (?:UNKNOWN(?: .*)?|TCP([46]) (\S+) (\S+) \d{1,5} \d{1,5})$/;

const signature = Buffer.from("\r\n\r\n\0\r\nQUIT\n");
/** The signature, the version with the command, the family, and the length of the rest. */
const fixedBytes = 16;
const ownCommand = 0x20;
const clientCommand = 0x21;
/** For each family of addresses over TCP: the bytes of one address, and of all with the ports. */
const addressBytes: ReadonlyMap<number, readonly [one: number, all: number]> = new Map([
  [0x11, [4, 12]],
  [0x21, [16, 36]],
]);

/** Reads the header at the beginning of `bytes`. `unfinished`: more bytes may complete it. */
export function readClientHeader(bytes: Buffer): ClientHeader | "unfinished" | "invalid" {
  if (beginsWith(bytes, signature)) return readBinary(bytes);
  return beginsWith(bytes, lineStart) ? readLine(bytes) : "invalid";
}

/** Whether the bytes begin with `start`, as far as they have arrived. */
function beginsWith(bytes: Buffer, start: Buffer): boolean {
  const length = Math.min(bytes.length, start.length);
  return bytes.subarray(0, length).equals(start.subarray(0, length));
}

function readLine(bytes: Buffer): ReturnType<typeof readClientHeader> {
  const text = bytes.toString("latin1", 0, lineBytesMax);
  const end = text.indexOf(lineEnd);
  if (end === -1) return bytes.length < lineBytesMax ? "unfinished" : "invalid";
  const match = lineForm.exec(text.slice(0, end));
  if (match === null) return "invalid";
  const length = end + lineEnd.length;
  const [, family, source = "", destination = ""] = match;
  if (family === undefined) return { length, client: { address: undefined } };
  const areAddresses = [source, destination].every((one) => isIP(one) === Number(family));
  return areAddresses ? { length, client: { address: plainAddress(source) } } : "invalid";
}

function readBinary(bytes: Buffer): ReturnType<typeof readClientHeader> {
  if (bytes.length < fixedBytes) return "unfinished";
  const command = bytes.readUInt8(12);
  const length = fixedBytes + bytes.readUInt16BE(14);
  if (command !== ownCommand && command !== clientCommand) return "invalid";
  if (length > clientHeaderBytesMax) return "invalid";
  if (bytes.length < length) return "unfinished";
  if (command === ownCommand) return { length, client: null };
  const sizes = addressBytes.get(bytes.readUInt8(13));
  if (sizes === undefined) return { length, client: { address: undefined } };
  const [one, all] = sizes;
  if (length < fixedBytes + all) return "invalid";
  const source = ipaddr.fromByteArray([...bytes.subarray(fixedBytes, fixedBytes + one)]);
  return { length, client: { address: plainAddress(source.toString()) } };
}
