// The artifact of the Docker driver: its builder makes one, and a start of a replica needs it.
import type { Artifact } from "#drivers/driver.ts";
import { assert } from "#lib/assert.ts";

/** A built image. */
export type DockerArtifact = {
  readonly kind: "docker";
  /** The image's id in the engine that built it: `sha256:…`. */
  readonly image: string;
  /** The name with digest under which other engines can pull it; null when it was not pushed. */
  readonly reference: string | null;
  /** The user and group that own the app's files in the image; the app runs as both. */
  readonly user: number;
  /** For example `3.11`; null for an image from the app's own Dockerfile. */
  readonly pythonVersion: string | null;
  /** Whether the app's server (uvicorn) can be told the path below which clients see the app. */
  readonly takesRootPath: boolean;
  /** The only TCP port that the app's own Dockerfile exposes; null: it exposes none or several. */
  readonly exposedPort: number | null;
};

/** Parses an artifact from the database. Fails when another driver made it. */
export function dockerArtifact(artifact: Artifact): DockerArtifact {
  const { kind, image, user, takesRootPath, exposedPort } = artifact;
  const { reference = null, pythonVersion = null } = artifact;
  assert(kind === "docker", `an artifact of kind ${kind} cannot be run by the Docker driver`);
  assert(
    typeof image === "string" && image !== "",
    "an artifact of the Docker driver names its image",
  );
  assert(typeof user === "number", "an artifact of the Docker driver names its user");
  const isTextOrNull = (value: unknown): value is string | null =>
    value === null || typeof value === "string";
  assert(
    isTextOrNull(reference) && isTextOrNull(pythonVersion),
    "reference and pythonVersion are text, or null",
  );
  return {
    kind,
    image,
    reference,
    user,
    pythonVersion,
    takesRootPath: takesRootPath === true,
    exposedPort: typeof exposedPort === "number" ? exposedPort : null,
  };
}
