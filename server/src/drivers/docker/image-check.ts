// Checks an image that was built, before it is started: refuses an image that cannot be started, or
// that would harm others.
import { posix } from "node:path";
import { buildAgain } from "@slipway/contract/advice.ts";
import { BuildFailed, type BuildLog, type BuildPlan } from "#drivers/builder.ts";
import type { BuildClient } from "./build-client.ts";

/**
 * The maximum size of an image's configuration, such as its labels and variables. The engine
 * repeats the configuration in each answer about a container of the image.
 */
const configCharactersMax = 256_000;
/** Few, since the engine copies the files of each volume for each container. */
const volumesMax = 10;
/** A template for the client, which leaves out a configuration that is too large. */
const form = `{{.Size}} {{len (json .Config)}} {{if lt (len (json .Config)) ${configCharactersMax}}}{{json .Config}}{{end}}`;

type ImageConfig = {
  readonly ExposedPorts?: Readonly<Record<string, unknown>> | null;
  readonly Volumes?: Readonly<Record<string, unknown>> | null;
  readonly Cmd?: readonly string[] | null;
  readonly Entrypoint?: readonly string[] | null;
};

/**
 * Checks the image, and writes its size to the build's log. Returns the port that an app's own
 * Dockerfile exposes; null when it does not expose exactly one, or when the app has no Dockerfile.
 * Rejects with `BuildFailed` for an image that is refused.
 */
export async function checkImage(
  client: Pick<BuildClient, "run">,
  {
    plan,
    image,
    log,
  }: { readonly plan: BuildPlan; readonly image: string; readonly log: BuildLog },
): Promise<number | null> {
  const answer = await client.run(["image", "inspect", `--format=${form}`, image]);
  const found = /^(\d+) (\d+) ?(.*)$/s.exec(answer);
  if (found === null)
    throw new Error(`docker describes an image as ${JSON.stringify(answer.slice(0, 200))}`);
  const [, size, length, text = ""] = found;
  // The template leaves the configuration out if it is too large.
  if (text === "") {
    throw new BuildFailed(
      `The configuration of the image has ${length} characters (labels, variables and the like). Fewer than ${configCharactersMax} are possible: make them smaller, and ${buildAgain}.`,
    );
  }
  // An image may have no configuration at all.
  const config = (JSON.parse(text) as ImageConfig | null) ?? {};
  const commandWords = [...(config.Cmd ?? []), ...(config.Entrypoint ?? []), ...plan.entrypoint];
  if (commandWords.length === 0) {
    throw new BuildFailed(
      `The Dockerfile ${plan.dockerfilePath} has neither CMD nor ENTRYPOINT, and the app has no entrypoint: add one of them, and ${buildAgain}.`,
    );
  }
  checkVolumes(Object.keys(config.Volumes ?? {}));
  log("code", "platform", `Image size: ${(Number(size) / 1e6).toFixed(2)} MB`);
  if (plan.dockerfilePath === null) return null;
  // Each key has the form `8000/tcp`.
  const exposed = Object.keys(config.ExposedPorts ?? {});
  const ports = exposed
    .filter((key) => key.endsWith("/tcp"))
    .map((key) => Number.parseInt(key, 10));
  const port = ports.length === 1 ? (ports[0] ?? null) : null;
  const exposes = ports.length === 0 ? "no port" : `port ${ports.join(", ")}`;
  const ifZero = port === null ? "the one in its variable PORT" : "the exposed one";
  log(
    "code",
    "platform",
    `The image exposes ${exposes}. The app is called at the port of its settings, where 0 means ${ifZero}.`,
  );
  return port;
}

/** Throws `BuildFailed` for too many volumes, or a volume within another one. */
function checkVolumes(volumes: readonly string[]): void {
  // With a slash at the end, a folder's path begins only the paths of folders within it.
  const folders = volumes.map((volume) => posix.join("/", volume, "/"));
  const nested = folders.find((folder) =>
    folders.some((other) => other !== folder && folder.startsWith(other)),
  );
  if (nested === undefined && folders.length <= volumesMax) return;
  const what =
    nested === undefined
      ? `names ${folders.length} volumes`
      : `names the volume ${nested} within another one`;
  throw new BuildFailed(
    `The image ${what.slice(0, 300)} (VOLUME, also of its base image). At most ${volumesMax} are possible, none within another: the engine copies the files in each for every replica. Remove some, and ${buildAgain}.`,
  );
}
