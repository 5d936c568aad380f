// Finds optional packages that a lock file names but does not contain, and adds the missing
// entries.

/** The used fields of an entry in `packages`. */
export type LockEntry = {
  readonly version?: string;
  readonly optional?: boolean;
  readonly dev?: boolean;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly libc?: readonly string[];
  readonly optionalDependencies?: Readonly<Record<string, string>>;
};

/** A package-lock.json of version 3. */
export type LockFile = { readonly packages: Readonly<Record<string, LockEntry>> };

/** An optional package that is missing in the lock file. */
export type Missing = {
  readonly name: string;
  readonly version: string;
  readonly isForDevelopment: boolean;
};

/** Optional packages that a locked package requires and that are not locked. */
export function missingPackages(lock: LockFile): Missing[] {
  return Object.entries(lock.packages).flatMap(([path, entry]) =>
    Object.entries(entry.optionalDependencies ?? {})
      .filter(
        ([name]) =>
          lock.packages[`node_modules/${name}`] === undefined &&
          lock.packages[`${path}/node_modules/${name}`] === undefined,
      )
      .map(([name, version]) => ({ name, version, isForDevelopment: entry.dev === true })),
  );
}

/**
 * The lock file with an entry for each missing package, in npm's order. Throws if a name does not
 * contain its platform.
 */
export function completeLock<Lock extends LockFile>(lock: Lock): Lock {
  const packages: Record<string, LockEntry> = { ...lock.packages };
  for (const missing of missingPackages(lock))
    packages[`node_modules/${missing.name}`] = entryFor(missing);
  const sorted = Object.entries(packages).sort(([a], [b]) => (a < b ? -1 : 1));
  return { ...lock, packages: Object.fromEntries(sorted) };
}

/** `@oxlint/binding-linux-arm64-musl` is for Linux, arm64, musl. */
function entryFor({ name, version, isForDevelopment }: Missing): LockEntry {
  const form =
    /(aix|android|darwin|freebsd|linux|openharmony|win32)-([a-z0-9]+)(?:-([a-z]+))?$/.exec(name);
  if (form === null)
    throw new Error(
      `${name}@${version} is missing and its name does not say which platform it is for`,
    );
  const [, os = "", cpu = "", abi = ""] = form;
  const libc = libcOf(abi);
  return {
    version,
    cpu: [cpu],
    ...(isForDevelopment ? { dev: true } : {}),
    ...(libc === null ? {} : { libc }),
    optional: true,
    os: [os],
  };
}

/** The C library in the name of a platform; null: it names none. */
function libcOf(abi: string): string[] | null {
  if (abi.startsWith("musl")) return ["musl"];
  return abi.startsWith("gnu") ? ["glibc"] : null;
}
