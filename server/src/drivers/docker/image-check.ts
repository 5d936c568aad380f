// Looks at an image that was built, before anything starts it: what nothing can start, or what
// would harm others, is refused.
import { posix } from "node:path";
import { buildAgain } from "@slipway/contract/advice.ts";
import { BuildFailed, type BuildLog, type BuildPlan } from "#drivers/builder.ts";
import type { BuildClient } from "./build-client.ts";

/**
 * The maximum size of an image's labels and variables, which the engine repeats in each answer
 * about a container of it.
 */
const configCharactersMax = 256_000;
/** The engine copies the image's files below each into the disk of each container. */
const volumesMax = 10;
/** Read by the client: the platform never holds a configuration that is too large. */
const form = `{{.Size}} {{len (json .Config)}} {{if lt (len (json .Config)) ${configCharactersMax}}}{{json .Config}}{{end}}`;

type ImageConfig = {
  readonly ExposedPorts?: Readonly<Record<string, unknown>> | null;
  readonly Volumes?: Readonly<Record<string, unknown>> | null;
  readonly Cmd?: readonly string[] | null;
  readonly Entrypoint?: readonly string[] | null;
};

/**
 * Tells the build's log the image's size, and returns the only port that an app's own Dockerfile
 * exposes; null where it is not exactly one, or the Dockerfile is not the app's own. Rejects with
 * `BuildFailed` for an image that is refused.
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
  const [, size, length, text = ""] = /^(\d+) (\d+) ?(.*)$/s.exec(answer) ?? [];
  if (text === "") {
    throw new BuildFailed(
      `The configuration of the image has ${length} characters (labels, variables and the like). Less than ${configCharactersMax} are possible: make them smaller, and ${buildAgain}.`,
    );
  }
  const config = JSON.parse(text) as ImageConfig;
  const isEmpty = (list: readonly string[] | null = null): boolean =>
    list === null || list.length === 0;
  if (isEmpty(config.Cmd) && isEmpty(config.Entrypoint) && plan.entrypoint.length === 0) {
    throw new BuildFailed(
      `The Dockerfile ${plan.dockerfilePath} has neither CMD nor ENTRYPOINT, and the app has no entrypoint: add one of them, and ${buildAgain}.`,
    );
  }
  checkVolumes(Object.keys(config.Volumes ?? {}));
  log("code", "platform", `Image size: ${(Number(size) / 1e6).toFixed(2)} MB`);
  const exposed = Object.keys(config.ExposedPorts ?? {});
  const ports = exposed.flatMap((one) => (one.endsWith("/tcp") ? [Number.parseInt(one, 10)] : []));
  if (plan.dockerfilePath === null) return null;
  const [only = null] = ports.length === 1 ? ports : [];
  const exposes = ports.length === 0 ? "no port" : `port ${ports.join(", ")}`;
  const ifZero = only === null ? "the one in its variable PORT" : "the exposed one";
  log(
    "code",
    "platform",
    `The image exposes ${exposes}. The app is called at its setting port; port 0 means ${ifZero}.`,
  );
  return only;
}

function checkVolumes(volumes: readonly string[]): void {
  const folders = volumes.map((one) => posix.join("/", one, "/"));
  const nested = folders.find((one) =>
    folders.some((other) => other !== one && one.startsWith(other)),
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
