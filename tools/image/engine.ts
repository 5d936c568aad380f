// Asks the engine about images, with the command line `docker`.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The image that another one is built from. */
export type Base = {
  /** What `FROM` names. */
  readonly reference: string;
  readonly name: string;
  readonly digest: string;
};

/**
 * The base that is meant: one with its digest, or what the engine has under this name. Null: the
 * engine has none, and a registry could answer with another one each time.
 */
export function baseOf(reference: string): Base | null {
  const [name = "", digest] = reference.split("@");
  if (digest !== undefined) return { reference, name, digest };
  const known = ask(
    "image",
    "inspect",
    "--format",
    "{{.Id}}{{range .RepoDigests}} {{.}}{{end}}",
    reference,
  );
  if (known === null) return null;
  const [id = "", named] = known.split(" ");
  // Engines with containerd's store name a digest also of images that no registry has: the id.
  if (named === undefined || named.endsWith(id)) return { reference, name, digest: id };
  return { reference: named, name, digest: named.split("@")[1] ?? "" };
}

/** What a command prints. Throws when it fails. */
export function engineSays(...words: readonly string[]): string {
  const said = ask(...words);
  if (said === null) throw new Error(`docker ${words.join(" ")} failed`);
  return said;
}

/** The bytes of each part of the image, in the order of the Dockerfile. */
export function partSizes(image: string): { readonly name: string; readonly bytes: number }[] {
  const form = "{{.Size}}\t{{.CreatedBy}}";
  const lines = engineSays("history", "--human=false", "--no-trunc", "--format", form, image);
  return lines
    .split("\n")
    .map((line) => {
      const [size = "0", made = ""] = line.split("\t");
      return { name: /COPY (\S+)/.exec(made)?.[1] ?? made, bytes: Number(size) };
    })
    .filter(({ bytes }) => bytes > 0)
    .toReversed();
}

/** The text of a file in the image, whose programs may be of another processor than this one. */
export function fileOf(image: string, platform: string, path: string): string {
  const container = engineSays("create", "--platform", platform, image);
  const folder = mkdtempSync(join(tmpdir(), "slipway-image-"));
  try {
    engineSays("cp", `${container}:${path}`, join(folder, "file"));
    return readFileSync(join(folder, "file"), "utf8");
  } finally {
    rmSync(folder, { recursive: true });
    engineSays("rm", "--volumes", container);
  }
}

function ask(...words: readonly string[]): string | null {
  const { status, stdout } = spawnSync("docker", words, {
    encoding: "utf8",
    maxBuffer: 64 * 1_048_576,
    stdio: ["ignore", "pipe", "inherit"],
  });
  return status === 0 ? stdout.trim() : null;
}
