// Makes and keeps the connections of calls out. Every address is checked here, in the connector that dials: those that
// DNS gave, all of them, are the list that is dialled, and a literal address is checked before it is. No proxy of the
// environment is used, for then the proxy would look the name up.
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
  /** Authorities in PEM form instead of the system's. */
  readonly authorities?: readonly string[];
  readonly perReceiverMax: number;
};

/** Shorter than what common servers keep (5 s of node is announced and then honoured), and not long after a name has moved. */
const idleMs = 15_000;
const idlePerReceiverMax = 64;
/** In all; the one that is idle for the longest is closed. */
const idleMax = 512;
/** One more of a name's addresses is tried when the one before has not answered for so long. */
const nextAddressMs = 250;
/** A name may have many; more are not dialled, though all are checked. */
const dialledMax = 8;

/** The agents of one client. */
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
      // Explicit, so that variables of the environment change neither the way nor what is trusted.
      proxyEnv: {},
      rejectUnauthorized: true,
    };
    const trust = options.authorities === undefined ? {} : { ca: [...options.authorities] };
    this.#plain = guarded(new HttpAgent(shared), options, idle);
    this.#secure = guarded(new HttpsAgent({ ...shared, ...trust, minVersion: "TLSv1.2" }), options, idle);
  }

  of(protocol: string): HttpAgent {
    return protocol === "https:" ? this.#secure : this.#plain;
  }

  /** Closes the idle connections to a place: the other side closed one of them, and so may have the rest. */
  dropIdle(protocol: string, { host, port }: { readonly host: string; readonly port: number }): void {
    // Node's name of a place; behind it come the options of TLS.
    const place = `${host}:${port}:`;
    for (const [key, sockets] of Object.entries(this.of(protocol).freeSockets)) {
      if (key.startsWith(place)) for (const socket of sockets ?? []) socket.destroy();
    }
  }

  /** Closes every connection, also those in use. */
  close(): void {
    this.#plain.destroy();
    this.#secure.destroy();
  }
}

/** Puts the checks into an agent, and bounds what it keeps. */
function guarded(agent: HttpAgent, options: AgentsOptions, idle: IdleConnections): HttpAgent {
  const connect = agent.createConnection.bind(agent);
  const keep = agent.keepSocketAlive.bind(agent);
  const reuse = agent.reuseSocket.bind(agent);
  agent.createConnection = (request, created) => {
    const port = Number(request.port);
    const isRefused = isIP(request.host ?? "") !== 0 && !options.guard.isAllowed(request.host ?? "", port);
    if (!isRefused) return connect(Object.assign(request, dialling(options, port)));
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

/** How a socket connects: several addresses are tried in turn, and all of them come from the checked list. */
function dialling({ guard, lookup }: AgentsOptions, port: number) {
  const checked: LookupFunction = (name, { all }, found) => {
    checkedAddresses(guard, lookup, { name, port }).then(
      (list) => {
        const [first] = list;
        if (all === true) found(null, list);
        else found(null, first?.address ?? "", first?.family ?? 0);
      },
      (error: unknown) => found(error as Error, []),
    );
  };
  return { lookup: checked, autoSelectFamily: true, autoSelectFamilyAttemptTimeout: nextAddressMs, noDelay: true };
}

type Found = { readonly address: string; readonly family: number };

/** One address that is not allowed spoils the whole answer: a name of both kinds is an attack, or a mistake. */
async function checkedAddresses(
  guard: AgentsOptions["guard"],
  lookup: NameLookup,
  { name, port }: { readonly name: string; readonly port: number },
): Promise<Found[]> {
  const addresses = await lookup(name);
  if (addresses.length === 0) throw new OutwardRefused("its name has no address");
  if (!addresses.every((address) => guard.isAllowed(address, port))) {
    throw new OutwardRefused(
      `its name resolves to an address that is not allowed (private, loopback, link-local or otherwise not public); ${allowHint}`,
    );
  }
  return addresses.slice(0, dialledMax).map((address) => ({ address, family: isIP(address) }));
}

/** Idle connections of all receivers, the oldest first. */
class IdleConnections {
  readonly #closers = new Map<Duplex, () => void>();

  add(socket: Duplex): void {
    const forget = (): void => void this.#closers.delete(socket);
    this.#closers.set(socket, forget);
    socket.once("close", forget);
    const [oldest] = this.#closers.keys();
    if (this.#closers.size > idleMax) oldest?.destroy();
  }

  delete(socket: Duplex): void {
    const forget = this.#closers.get(socket);
    if (forget === undefined) return;
    this.#closers.delete(socket);
    socket.off("close", forget);
  }
}
