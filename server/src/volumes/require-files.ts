// The files of volumes, where the platform reaches them.
import { Fault } from "#lib/fault.ts";

/** Throws `Fault("not_usable")` where only apps reach them. */
export function requireFiles<Needed>(files: Needed | null): Needed {
  if (files !== null) return files;
  throw new Fault(
    "not_usable",
    "Files of volumes cannot be listed, uploaded, downloaded or removed here, because this platform's driver keeps them where only apps reach them: read and write them in an app, below /persistent-storage.",
  );
}
