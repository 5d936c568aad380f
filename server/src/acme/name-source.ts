// Where the names come from that get certificates. Whoever gives a name vouches that it belongs to
// the platform or to an app: no certificate is ever requested for a name that nobody has proven.

/** A source of names; each is a host name, or `*.` and the name above. */
export interface NameSource {
  /** How the names may be proven. `own`: also by DNS records, if the settings say how. */
  readonly zone: "own" | "foreign";
  /** The names that need certificates now. */
  names(): readonly string[] | Promise<readonly string[]>;
  /** Calls `listener` when the names may have changed. Returns a function that ends this. */
  onChange(listener: () => void): () => void;
}
