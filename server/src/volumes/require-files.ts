// Requires that the platform reaches the files of volumes.
import { Fault } from "#lib/fault.ts";

/** Returns `files`. Throws `Fault("not_usable")` where only apps reach the files of volumes. */
export function requireFiles<Needed>(files: Needed | null): Needed {
  if (files !== null) return files;
  throw new Fault(
    "not_usable",
    "Files of volumes cannot be listed, uploaded, downloaded or removed here, because this platform's driver keeps them where only apps reach them: read and write them in an app, below /persistent-storage.",
  );
}
