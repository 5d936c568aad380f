// Pushes the image of a build to the operator's registry, so that an engine that has lost the image
// can pull it again.
import { join } from "node:path";
import { buildAgain } from "@slipway/contract/advice.ts";
import { BuildFailed } from "#drivers/builder.ts";
import type { BuildClient } from "./build-client.ts";
import type { BuildTry } from "./build-try.ts";
import { usualRegistry, type Engine } from "./engine.ts";
import type { ImageRegistry } from "./pull-image.ts";
import { registryAuths } from "./registry-auth.ts";

export type PushParts = {
  readonly client: BuildClient;
  readonly engine: Pick<Engine, "calls">;
  readonly registry: ImageRegistry;
  /** The tag of the image in the registry. */
  readonly tag: string;
};

/** Returns the image's name with its digest at the registry. Rejects with `BuildFailed`. */
export async function pushImage(
  image: string,
  { client, engine, registry, tag }: PushParts,
  { dir, context, leftMs }: BuildTry,
): Promise<string> {
  const { log, signal } = context;
  const name = `${registry.name}:${tag}`;
  // A home of its own, without the app's credentials for the registry of the base image.
  const home = join(dir, "push");
  const auths =
    registry.auth === null
      ? {}
      : registryAuths(registry.auth, [registry.name], await usualRegistry(engine));
  await client.configure(home, auths);
  log("code", "platform", `Pushing to ${registry.name}`);
  await client.run(["tag", image, name]);
  const output = await client
    .run(["push", name], { home, signal, timeoutMs: leftMs() })
    .catch((error: unknown) => {
      signal.throwIfAborted();
      // The reason is in the last line of the client's output.
      const message = error instanceof Error ? error.message : "";
      const reason = message.split("\n").at(-1) ?? "";
      throw new BuildFailed(
        `The image could not be pushed to ${registry.name} (${reason}). The operator has to check that registry and its credentials; then ${buildAgain}.`,
        { cause: error },
      );
    });
  const digest = /digest: (sha256:[0-9a-f]{64})/.exec(output)?.[1];
  if (digest === undefined)
    throw new BuildFailed(`${registry.name} does not say the digest of the pushed image.`);
  log("code", "platform", `Pushed as ${registry.name}@${digest}`);
  return `${registry.name}@${digest}`;
}
