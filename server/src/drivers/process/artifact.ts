// The artifact that the process driver's builder makes and its `start` needs.
import type { Artifact } from "#drivers/driver.ts";
import { assert } from "#lib/assert.ts";

/** A built app on this machine. All paths are absolute. */
export type ProcessArtifact = {
  readonly kind: "process";
  /**
   * The app's files, and the working directory of its replicas. Contains `app`: a link to the
   * folder itself, unless the app has a file of that name.
   */
  readonly appDir: string;
  /** The interpreter of `venvDir`, never a shim. */
  readonly python: string;
  /** The virtual environment; its `bin` comes first in the PATH of replicas. */
  readonly venvDir: string;
  /** The Python version, for example `3.11`. */
  readonly pythonVersion: string;
  /** True when the app's uvicorn can be told the path below which clients see the app. */
  readonly takesRootPath: boolean;
};

/** Parses an artifact from the database. Fails when another driver made it. */
export function processArtifact(artifact: Artifact): ProcessArtifact {
  const { kind, appDir, python, venvDir, pythonVersion, takesRootPath } = artifact;
  assert(kind === "process", `an artifact of kind ${kind} cannot be run by the process driver`);
  const isPath = (value: unknown): value is string =>
    typeof value === "string" && value.startsWith("/");
  assert(
    isPath(appDir) && isPath(python) && isPath(venvDir),
    "an artifact of the process driver holds absolute paths",
  );
  assert(
    typeof pythonVersion === "string",
    "an artifact of the process driver names its Python version",
  );
  return {
    kind: "process",
    appDir,
    python,
    venvDir,
    pythonVersion,
    takesRootPath: takesRootPath === true,
  };
}
