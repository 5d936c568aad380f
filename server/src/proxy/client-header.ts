// Reads the header of the PROXY protocol, with which a load balancer begins a connection to say
// which client it passes on. Version 1 of the header is a line, version 2 is binary, and its
// extensions are skipped. Pure. The format:
// https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt
import ipaddr from "ipaddr.js";
import { isIP } from "node:net";
import { plainAddress } from "#lib/client-address.ts";

/** What the header says. */
export type ClientHeader = {
  /** How many bytes the header has; the client's own bytes follow it. */
  readonly length: number;
  /** Null: the balancer itself is the client, such as for a health check. */
  readonly client: {
    /** Undefined: the balancer does not know the address, or it is neither IPv4 nor IPv6. */
    readonly address: string | undefined;
  } | null;
};

/**
 * A longer header is refused. Senders keep to this length, so that the header arrives in one
 * packet.
 */
export const clientHeaderBytesMax = 536;

const lineStart = Buffer.from("PROXY ");
const lineEnd = "\r\n";
/** The longest line of the specification, with its end. */
const lineBytesMax = 107;
/** The line: the family, then the addresses of client and balancer, then their ports. */
const lineForm = /^PROXY (?:UNKNOWN(?: .*)?|TCP([46]) (\S+) (\S+) \d{1,5} \d{1,5})$/;

const signature = Buffer.from("\r\n\r\n\0\r\nQUIT\n");
/** The signature, the version with the command, the family, and the length of the rest. */
const fixedBytes = 16;
/** Version 2 and the command `LOCAL`: the balancer itself is the client. */
const ownCommand = 0x20;
/** Version 2 and the command `PROXY`: the balancer passes on a client's connection. */
const clientCommand = 0x21;
/**
 * For TCP over IPv4 (0x11) and over IPv6 (0x21): how many bytes one address has, and how many both
 * addresses and both ports have together.
 */
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
  const areAddresses = [source, destination].every((address) => isIP(address) === Number(family));
  return areAddresses ? { length, client: { address: plainAddress(source) } } : "invalid";
}

function readBinary(bytes: Buffer): ReturnType<typeof readClientHeader> {
  if (bytes.length < fixedBytes) return "unfinished";
  // The signature has 12 bytes. Then come the command, the family, and two bytes with the length.
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
