// Where the names come from that get certificates. Whoever gives a name vouches that it belongs to
// the platform or to an app: no certificate is ever requested for a name that nobody has proven.
import type { ProjectId } from "#lib/ids.ts";

/** A source of names. Each is a host name, or a wildcard: `*.` and the name above it. */
export interface NameSource {
  /** How the names may be proven. `own`: also by DNS records, if the settings say how. */
  readonly zone: "own" | "foreign";
  /** The names that need certificates now. */
  names(): readonly string[] | Promise<readonly string[]>;
  /** The project that one of these names belongs to; null: it is the platform's own. */
  projectOf(name: string): ProjectId | null;
  /** Calls `listener` when the names may have changed. Returns a function that ends this. */
  onChange(listener: () => void): () => void;
}
