// Makes resolvers for questions to name servers. Each question needs a new one: it uses the
// machine's current name servers, and can be cancelled alone.
import { Resolver } from "node:dns/promises";

export type ResolverOptions = {
  /** The name servers to ask, as address or address:port; empty: those of the machine. */
  readonly servers: readonly string[];
  /** The timeout of one query to one server; each further try waits longer. */
  readonly waitMs: number;
  readonly tries: number;
};

/** A new resolver. */
export function newResolver({ servers, waitMs, tries }: ResolverOptions): Resolver {
  const resolver = new Resolver({ timeout: waitMs, tries });
  if (servers.length > 0) resolver.setServers(servers);
  return resolver;
}
