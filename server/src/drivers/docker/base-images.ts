// Asks the registry whether a project may use the images that its build names by digest: BuildKit does not ask again for what the
// engine holds, so a project would get what another one has pulled with its credentials.
import { buildAgain } from "@slipway/contract/advice.ts";
import { BuildFailed } from "#drivers/builder.ts";
import { explainPull } from "./build-error.ts";
import { labels } from "./container-spec.ts";
import { unlessStatus, type Engine } from "./engine.ts";
import { authOf, type RegistryAuths } from "./registry-auth.ts";

type Given = {
  /** The app's credentials. */
  readonly auths: RegistryAuths;
  /** The registry of names without one. */
  readonly usual: string;
  readonly signal: AbortSignal;
};

/** Each is asked of a registry, one after the other. */
const digestsMax = 20;

/** Throws `BuildFailed` for the first of these images, named by digest, that the registry does not give the app. */
export async function checkDigests(
  { calls }: Pick<Engine, "calls">,
  images: readonly string[],
  { auths, usual, signal }: Given,
): Promise<void> {
  const names = new Set(images);
  if (names.size > digestsMax) {
    throw new BuildFailed(
      `The Dockerfile names ${names.size} images by digest. At most ${digestsMax} are possible: use fewer, and ${buildAgain}.`,
    );
  }
  const aborted = new Promise<never>((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
  });
  aborted.catch(() => undefined);
  for (const name of names) {
    signal.throwIfAborted();
    const image = calls.getImage(name);
    // What the operator has loaded is for everybody; images of apps are not.
    const held = await unlessStatus([404], image.inspect());
    if (held !== undefined && held.Config.Labels?.[labels.build] === undefined) continue;
    const authconfig = authOf(name, auths, usual);
    const asked = image.distribution({ authconfig }).catch((error: unknown) => {
      const reason = String(error)
        .replace(/^Error: \(HTTP code \d+\) [^-]*- /, "")
        .trim();
      const options = { cause: error };
      throw new BuildFailed(explainPull(name, reason, Object.keys(auths).length > 0), options);
    });
    await Promise.race([asked, aborted]);
  }
}

/** The failure of a build with an image by digest that `checkDigests` was not asked about. */
export function digestNotPlain(image: string): BuildFailed {
  return new BuildFailed(
    `The image ${image.slice(0, 300)} is named by a digest that the Dockerfile composes. Write the name with its digest out in one piece, and ${buildAgain}.`,
  );
}
