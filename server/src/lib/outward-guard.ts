// The one guard for every outward call of the platform: says which URLs may be called, and which addresses their names
// may lead to. What a caller gives is refused unless it is a plain http(s) URL to a public address, or to one that the
// operator opened. Knows no DNS: `outward-request.ts` asks it again for each address that it is about to dial.
import { networkInterfaces } from "node:os";
import { isAllowedPort } from "./outward-ports.ts";
import { isInRange, readAddress, readRange, specialKind, type IpAddress, type Range } from "./outward-ranges.ts";

/** Where a part of the platform itself listens. `host`: a name or an address; 0.0.0.0 and :: stand for every address of this machine. */
export type OwnListener = { readonly host: string; readonly port: number };

export type OutwardGuardOptions = {
  /** Ranges in CIDR form, or addresses, that may be called although they are not public; the value of SLIPWAY_WEBHOOK_ALLOW. */
  readonly allow: readonly string[];
  /** Refused also where their addresses are public, unless `allow` opens them. More can be added later. */
  readonly ownListeners?: readonly OwnListener[];
  /** The addresses of this machine; read from its network interfaces when absent. */
  readonly machineAddresses?: () => readonly string[];
};

/** What `OutwardGuard.read` made of a URL: where to connect, or a sentence for the caller. */
export type OutwardTarget =
  | { readonly url: URL; /** Without brackets. */ readonly host: string; readonly port: number }
  | { readonly problem: string };

/** Longer ones are refused: no receiver needs them, and every delivery's row and log line carries one. */
const urlCharactersMax = 4_096;
const nameCharactersMax = 253;
const labelForm = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;
/** What URL readers cut out, or take for something else: C0 controls, space, backslash, DEL, C1 controls, and line and paragraph separators. */
const oddCharacter = /[\u0000-\u0020\\\u007f-\u00a0\u2028\u2029]/;
const authorityForm = /^https?:\/\/([^/?#]*)/i;
const loopbackAddresses = ["127.0.0.1", "::1"];
const everyAddress = ["0.0.0.0", "::"];

/** Names the setting that an operator needs, in every refusal of an address. */
export const allowHint = "SLIPWAY_WEBHOOK_ALLOW opens address ranges.";

/** Decides; holds nothing but what it was made with. */
export class OutwardGuard {
  readonly #allow: readonly Range[];
  readonly #ownListeners: OwnListener[];
  readonly #machineAddresses: () => readonly string[];

  /** Throws a plain Error that names a bad range of `allow`. */
  constructor({ allow, ownListeners = [], machineAddresses = interfaceAddresses }: OutwardGuardOptions) {
    this.#allow = allow.map((text) => readRange(text));
    this.#ownListeners = ownListeners.map((place) => inOneForm(place));
    this.#machineAddresses = machineAddresses;
  }

  /** For what is known only later, such as the port that the platform got. */
  addOwnListener(place: OwnListener): void {
    this.#ownListeners.push(inOneForm(place));
  }

  /** Null: fine as far as can be said without DNS. Else a sentence for the caller, without what may be secret in the URL. */
  checkUrl(url: string): string | null {
    const target = this.read(url);
    return "problem" in target ? target.problem : null;
  }

  /** Takes a URL apart, strictly: what two readers could understand in two ways is refused. */
  read(text: string): OutwardTarget {
    if (text.length > urlCharactersMax) return { problem: `The URL is longer than ${urlCharactersMax} characters.` };
    if (oddCharacter.test(text)) {
      return {
        problem: "The URL contains a space, a control character or a backslash; percent-encode them, a space as %20.",
      };
    }
    const authority = authorityForm.exec(text)?.[1];
    if (authority === undefined) return { problem: "The URL must start with http:// or https://." };
    if (authority.includes("@")) return { problem: "The URL must not have a user or a password in front of its host." };
    if (authority.includes("%")) return { problem: "The URL's host must not be percent-encoded or have a zone." };
    if (text.includes("#")) return { problem: "The URL must not have a fragment (#…): it would never be sent." };
    // Empty: a reader of URLs would take the path's first part for the host.
    const url = authority === "" ? null : URL.parse(text);
    if (url === null || url.hostname === "") return { problem: "The URL's host or port cannot be understood." };
    // A dot at the end says that the name is whole, as all names here are; TLS and receivers do without it.
    const host = url.hostname.replace(/^\[|\]$|\.$/g, "");
    const port = url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port);
    const problem = this.#portProblem(port) ?? this.#hostProblem({ host, port, authority });
    return problem === null ? { url, host, port } : { problem };
  }

  /** Whether a connection may be made to this address (as DNS or a socket gives it). Without `port`: to some port of it. */
  isAllowed(address: string, port?: number): boolean {
    const read = readAddress(address);
    return read !== null && this.#addressProblem(read, port) === null;
  }

  #portProblem(port: number): string | null {
    return isAllowedPort(port) ? null : `Port ${port} may not be called: it is used by a protocol other than HTTP.`;
  }

  #hostProblem({ host, port, authority }: { host: string; port: number; authority: string }): string | null {
    const address = readAddress(host);
    if (address === null) return this.#nameProblem(host, port);
    // 127.1, 0x7f.1 and 2130706433 are addresses to some readers and names to others.
    const isPlain = host.includes(":") || authority.replace(/:\d*$/, "") === host;
    if (!isPlain) return `Write the URL's address as ${host}, in its usual form.`;
    const problem = this.#addressProblem(address, port);
    return problem === null ? null : `The address ${host} may not be called: ${problem}. ${allowHint}`;
  }

  #nameProblem(name: string, port: number): string | null {
    if (name.length > nameCharactersMax || !name.split(".").every((label) => labelForm.test(label))) {
      return "The URL's host is not a valid name.";
    }
    if (/(^|\.)localhost$/.test(name) && !loopbackAddresses.some((one) => this.isAllowed(one, port))) {
      return `The name ${name} may not be called: it resolves to a loopback address. ${allowHint}`;
    }
    if (this.#ownListeners.some((place) => place.host === name && place.port === port)) {
      return `The name ${name} may not be called on port ${port}: the platform itself is there.`;
    }
    return null;
  }

  /** What stands behind "may not be called: ". */
  #addressProblem(address: IpAddress, port: number | undefined): string | null {
    if (this.#allow.some((range) => isInRange(address, range))) return null;
    const kind = specialKind(address);
    if (kind !== null) return `it is ${kind} address`;
    return port !== undefined && this.#isOwn(address.toString(), port) ? "the platform itself is there" : null;
  }

  #isOwn(address: string, port: number): boolean {
    const places = this.#ownListeners.filter((place) => place.port === port);
    if (places.some((place) => place.host === address)) return true;
    if (!places.some((place) => everyAddress.includes(place.host))) return false;
    return this.#machineAddresses().some((one) => readAddress(one)?.toString() === address);
  }
}

/** Compared as text, so each must be in the form that addresses are compared in. */
function inOneForm({ host, port }: OwnListener): OwnListener {
  const bare = host.replace(/^\[|\]$/g, "").toLowerCase();
  return { host: readAddress(bare)?.toString() ?? bare.replace(/\.$/, ""), port };
}

/** Read anew each time, which is rarely: machines get and lose addresses while the platform runs. */
function interfaceAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ address }) => address));
}
