// Opens and keeps the connections of outward calls. Every address is checked here, just before a
// connection to it: all addresses that DNS returned, and also an address in the URL itself. Proxies
// from the environment are ignored, because a proxy would do its own lookup.
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import type { Duplex } from "node:stream";
import { allowHint, type OutwardGuard } from "./outward-guard.ts";
import type { NameLookup } from "./outward-names.ts";
import { OutwardRefused } from "./outward-reasons.ts";

export type AgentsOptions = {
  readonly guard: Pick<OutwardGuard, "isAllowed">;
  readonly lookup: NameLookup;
  /** CAs in PEM form, instead of the system's. */
  readonly authorities?: readonly string[];
  /** The maximum number of connections to one receiver that are in use. */
  readonly perReceiverMax: number;
};

/**
 * Shorter than the keep-alive of common servers, and short enough to follow DNS changes. A server
 * with a shorter keep-alive, such as Node's 5 s, announces it, and the agent obeys.
 */
const idleMs = 15_000;
const idlePerReceiverMax = 64;
/** The maximum number of idle connections; beyond it, the one that was idle longest is closed. */
const idleMax = 512;
/** How long to wait for one address of a name before trying the next one too. */
const nextAddressMs = 250;
/** A name may have more addresses; all are checked, but only this many are dialled. */
const dialledMax = 8;

/** The agents of one client: one for HTTP, one for HTTPS. */
export class OutwardAgents {
  readonly #plain: HttpAgent;
  readonly #secure: HttpAgent;

  constructor(options: AgentsOptions) {
    const idle = new IdleConnections();
    const shared = {
      keepAlive: true,
      timeout: idleMs,
      maxSockets: options.perReceiverMax,
      maxFreeSockets: idlePerReceiverMax,
      // Explicit, so that environment variables change neither the route nor the trusted CAs.
      proxyEnv: {},
      rejectUnauthorized: true,
    };
    const trust = options.authorities === undefined ? {} : { ca: [...options.authorities] };
    this.#plain = guarded(new HttpAgent(shared), options, idle);
    this.#secure = guarded(
      new HttpsAgent({ ...shared, ...trust, minVersion: "TLSv1.2" }),
      options,
      idle,
    );
  }

  of(protocol: string): HttpAgent {
    return protocol === "https:" ? this.#secure : this.#plain;
  }

  /**
   * Closes the idle connections to a receiver that has closed one of them, and perhaps the others.
   */
  dropIdle(
    protocol: string,
    { host, port }: { readonly host: string; readonly port: number },
  ): void {
    // Node's key of a receiver begins with host and port, which its TLS options follow.
    const prefix = `${host}:${port}:`;
    for (const [key, sockets] of Object.entries(this.of(protocol).freeSockets)) {
      if (key.startsWith(prefix)) for (const socket of sockets ?? []) socket.destroy();
    }
  }

  /** Closes every connection, including those in use. */
  close(): void {
    this.#plain.destroy();
    this.#secure.destroy();
  }
}

/** Adds the address checks to an agent, and bounds its idle connections. */
function guarded(agent: HttpAgent, options: AgentsOptions, idle: IdleConnections): HttpAgent {
  const connect = agent.createConnection.bind(agent);
  const keep = agent.keepSocketAlive.bind(agent);
  const reuse = agent.reuseSocket.bind(agent);
  agent.createConnection = (request, created) => {
    const port = Number(request.port);
    // Only an address in the URL itself is checked here. Names are checked when they are looked up.
    const isRefused =
      isIP(request.host ?? "") !== 0 && !options.guard.isAllowed(request.host ?? "", port);
    if (!isRefused) return connect(Object.assign(request, dialling(options, port)));
    // Node's type demands a socket even with an error.
    created?.(new OutwardRefused(`its address is not allowed; ${allowHint}`), undefined as never);
    return undefined;
  };
  agent.keepSocketAlive = (socket) => {
    const isKept: unknown = keep(socket);
    if (isKept !== false) idle.add(socket);
    return isKept;
  };
  agent.reuseSocket = (socket, request) => {
    idle.delete(socket);
    reuse(socket, request);
  };
  return agent;
}

/** Returns the options with which a socket tries several addresses in turn, all of them checked. */
function dialling({ guard, lookup }: AgentsOptions, port: number) {
  const checkedLookup: LookupFunction = (name, { all }, answer) => {
    checkedAddresses(guard, lookup, { name, port }).then(
      (list) => {
        const [first] = list;
        // Node asks for one address or for all; the list is never empty.
        if (all === true) answer(null, list);
        else answer(null, first?.address ?? "", first?.family ?? 0);
      },
      (error: unknown) => answer(error as Error, []),
    );
  };
  return {
    lookup: checkedLookup,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: nextAddressMs,
    noDelay: true,
  };
}

type CheckedAddress = { readonly address: string; readonly family: number };

/**
 * Looks up a name. One forbidden address rejects the whole answer: a name with allowed and
 * forbidden addresses is an attack or a mistake.
 */
async function checkedAddresses(
  guard: AgentsOptions["guard"],
  lookup: NameLookup,
  { name, port }: { readonly name: string; readonly port: number },
): Promise<CheckedAddress[]> {
  const addresses = await lookup(name);
  if (addresses.length === 0) throw new OutwardRefused("its name has no address");
  if (!addresses.every((address) => guard.isAllowed(address, port))) {
    throw new OutwardRefused(
      `its name resolves to an address that is not allowed (private, loopback, link-local or otherwise not public); ${allowHint}`,
    );
  }
  return addresses.slice(0, dialledMax).map((address) => ({ address, family: isIP(address) }));
}

/** Idle connections of all receivers, oldest first. */
class IdleConnections {
  /** Each connection with its listener for `close`, which is there only while it is idle. */
  readonly #listeners = new Map<Duplex, () => void>();

  add(socket: Duplex): void {
    const forget = (): void => void this.#listeners.delete(socket);
    this.#listeners.set(socket, forget);
    socket.once("close", forget);
    const [oldest] = this.#listeners.keys();
    if (this.#listeners.size > idleMax) oldest?.destroy();
  }

  delete(socket: Duplex): void {
    const forget = this.#listeners.get(socket);
    if (forget === undefined) return;
    this.#listeners.delete(socket);
    socket.off("close", forget);
  }
}
