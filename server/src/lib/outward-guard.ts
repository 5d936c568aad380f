// The only guard for outward calls of the platform: decides which URLs may be called, and to which
// addresses their names may resolve. It allows only plain http(s) URLs to public addresses, or to
// addresses that the operator has opened. It does not use DNS: `outward-request.ts` asks it again
// about each address before it connects.
import { networkInterfaces } from "node:os";
import {
  isInRange,
  readAddress,
  readRange,
  specialKind,
  type IpAddress,
  type Range,
} from "./outward-ranges.ts";

/**
 * Where a part of the platform itself listens. `host`: a name or an address; 0.0.0.0 and :: mean
 * every address of this machine.
 */
export type OwnListener = { readonly host: string; readonly port: number };

export type OutwardGuardOptions = {
  /**
   * Non-public addresses that may be called, as CIDR ranges or single addresses; the value of
   * SLIPWAY_WEBHOOK_ALLOW.
   */
  readonly allow: readonly string[];
  /** The platform's own listeners: refused even at public addresses, unless `allow` opens them. */
  readonly ownListeners?: readonly OwnListener[];
  /** The addresses of this machine; read from its network interfaces by default. */
  readonly machineAddresses?: () => readonly string[];
};

/** Where to connect, or why the URL may not be called, in a sentence for the caller. */
export type OutwardTarget =
  | {
      readonly url: URL;
      /** The host name, or the address without the brackets of IPv6. */
      readonly host: string;
      readonly port: number;
    }
  | { readonly problem: string };

/** No receiver needs a longer URL, and every delivery stores and logs its URL. */
const urlCharactersMax = 4_096;
/** The limits of DNS. Underscores are not allowed in host names, but some receivers have them. */
const nameCharactersMax = 253;
const labelForm = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;
/**
 * Characters that URL parsers drop or reinterpret: C0 controls, space, backslash, DEL, C1 controls,
 * the no-break space, and line and paragraph separators.
 */
const oddCharacter = /[\u0000-\u0020\\\u007f-\u00a0\u2028\u2029]/;
const authorityForm = /^https?:\/\/([^/?#]*)/i;
const loopbackAddresses = ["127.0.0.1", "::1"];
const everyAddress = ["0.0.0.0", "::"];

/** Added to every refusal of an address: names the setting that the operator needs. */
export const allowHint = "SLIPWAY_WEBHOOK_ALLOW opens address ranges.";

/** Decides which URLs and addresses may be called, by its options and the added listeners. */
export class OutwardGuard {
  readonly #allow: readonly Range[];
  readonly #ownListeners: OwnListener[];
  readonly #machineAddresses: () => readonly string[];

  /** Throws a plain Error that names the bad range in `allow`. */
  constructor({
    allow,
    ownListeners = [],
    machineAddresses = interfaceAddresses,
  }: OutwardGuardOptions) {
    this.#allow = allow.map((text) => readRange(text));
    this.#ownListeners = ownListeners.map((listener) => inOneForm(listener));
    this.#machineAddresses = machineAddresses;
  }

  /** Adds a listener that was not known at the start, such as the port that the platform got. */
  addOwnListener(listener: OwnListener): void {
    this.#ownListeners.push(inOneForm(listener));
  }

  /**
   * Null: the URL is allowed, as far as is known without DNS; else why not, in a sentence for the
   * caller that repeats no secret of the URL.
   */
  checkUrl(url: string): string | null {
    const target = this.read(url);
    return "problem" in target ? target.problem : null;
  }

  /** Parses a URL strictly: refuses whatever two parsers could read differently. */
  read(text: string): OutwardTarget {
    if (text.length > urlCharactersMax)
      return { problem: `The URL is longer than ${urlCharactersMax} characters.` };
    if (oddCharacter.test(text)) {
      return {
        problem:
          "The URL contains a space, a control character or a backslash; percent-encode them, a space as %20.",
      };
    }
    const authority = authorityForm.exec(text)?.[1];
    if (authority === undefined) return { problem: "The URL must start with http:// or https://." };
    if (authority.includes("@"))
      return { problem: "The URL must not have a user or a password in front of its host." };
    if (authority.includes("%"))
      return { problem: "The URL's host must not be percent-encoded or have a zone." };
    if (text.includes("#"))
      return { problem: "The URL must not have a fragment (#…): it would never be sent." };
    // After an empty authority, a URL parser would take the first part of the path as the host.
    const url = authority === "" ? null : URL.parse(text);
    if (url === null || url.hostname === "")
      return { problem: "The URL's host or port cannot be understood." };
    // Removes the brackets of IPv6, and a dot at the end, which marks a name as fully qualified.
    // All names here are fully qualified; TLS and receivers do not use the dot.
    const host = url.hostname.replace(/^\[|\]$|\.$/g, "");
    const port = url.port === "" ? portOf(url.protocol) : Number(url.port);
    const problem = this.#portProblem(port) ?? this.#hostProblem({ host, port, authority });
    return problem === null ? { url, host, port } : { problem };
  }

  /**
   * Whether the platform may connect to an address, as DNS or a socket gives it. Without `port`:
   * whether it may connect to at least one port.
   */
  isAllowed(address: string, port?: number): boolean {
    const read = readAddress(address);
    return read !== null && this.#addressProblem(read, port) === null;
  }

  #portProblem(port: number): string | null {
    return isAllowedPort(port)
      ? null
      : `Port ${port} may not be called: it is used by a protocol other than HTTP.`;
  }

  #hostProblem({
    host,
    port,
    authority,
  }: {
    host: string;
    port: number;
    authority: string;
  }): string | null {
    const address = readAddress(host);
    if (address === null) return this.#nameProblem(host, port);
    // Some parsers read 127.1, 0x7f.1 and 2130706433 as addresses, others as names.
    const isPlain = host.includes(":") || authority.replace(/:\d*$/, "") === host;
    if (!isPlain) return `Write the URL's address as ${host}, in its usual form.`;
    const problem = this.#addressProblem(address, port);
    return problem === null
      ? null
      : `The address ${host} may not be called: ${problem}. ${allowHint}`;
  }

  #nameProblem(name: string, port: number): string | null {
    const hasValidLabels = name.split(".").every((label) => labelForm.test(label));
    if (name.length > nameCharactersMax || !hasValidLabels)
      return "The URL's host is not a valid name.";
    const isLocalhost = /(^|\.)localhost$/.test(name);
    if (isLocalhost && !loopbackAddresses.some((address) => this.isAllowed(address, port)))
      return `The name ${name} may not be called: it resolves to a loopback address. ${allowHint}`;
    if (this.#ownListeners.some((listener) => listener.host === name && listener.port === port)) {
      return `The name ${name} may not be called on port ${port}: the platform itself is there.`;
    }
    return null;
  }

  /** Why the address may not be called, as the end of a sentence; null: it may. */
  #addressProblem(address: IpAddress, port: number | undefined): string | null {
    if (this.#allow.some((range) => isInRange(address, range))) return null;
    const kind = specialKind(address);
    if (kind !== null) return `it is ${kind} address`;
    return port !== undefined && this.#isOwn(address.toString(), port)
      ? "the platform itself is there"
      : null;
  }

  /** Whether a part of the platform listens at this address and port. */
  #isOwn(address: string, port: number): boolean {
    const listeners = this.#ownListeners.filter((listener) => listener.port === port);
    if (listeners.some((listener) => listener.host === address)) return true;
    if (!listeners.some((listener) => everyAddress.includes(listener.host))) return false;
    const machineAddresses = this.#machineAddresses().map((text) => readAddress(text)?.toString());
    return machineAddresses.includes(address);
  }
}

/** The default port of a protocol. */
function portOf(protocol: string): number {
  return protocol === "https:" ? 443 : 80;
}

/** Listeners are compared as text, so each must be in normalized form. */
function inOneForm({ host, port }: OwnListener): OwnListener {
  const bare = host.replace(/^\[|\]$/g, "").toLowerCase();
  return { host: readAddress(bare)?.toString() ?? bare.replace(/\.$/, ""), port };
}

/** Not cached: machines get and lose addresses while the platform runs, and calls are rare. */
function interfaceAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((list) =>
    (list ?? []).map(({ address }) => address),
  );
}

/**
 * Ports of other protocols that lines of text could control (mail, chat, printers, file servers).
 * The list is that of the Fetch standard, which browsers also use. Allowing only a few ports would
 * be stricter, but receivers legitimately use 3000, 8080 or 8443.
 */
const refusedPorts: ReadonlySet<number> = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
  103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465,
  512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993,
  995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668,
  6669, 6679, 6697, 10080,
]);

/** Whether the port exists, and is not refused as the port of another protocol. */
function isAllowedPort(port: number): boolean {
  return port <= 65_535 && !refusedPorts.has(port);
}
