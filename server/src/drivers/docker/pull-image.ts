// Pulls the image of a build from the operator's registry, when somebody has removed it from the
// engine.
import { buildAgain } from "@slipway/contract/advice.ts";
import { StartRefused } from "#drivers/driver.ts";
import { finished } from "node:stream/promises";
import type { Readable } from "node:stream";
import type { Log } from "#lib/log.ts";
import type { Secret } from "#lib/secret.ts";
import type { DockerArtifact } from "./artifact.ts";
import { engineStatus, isUnreachable, usualRegistry, type Engine } from "./engine.ts";
import { authOf, registryAuths } from "./registry-auth.ts";

/** The registry that images are pushed to, with the operator's credentials. */
export type ImageRegistry = { readonly name: string; readonly auth: Secret | null };

type ImageStart = {
  readonly engine: Pick<Engine, "calls" | "streams">;
  readonly artifact: DockerArtifact;
  /** Null: images are only in the engine. */
  readonly registry: ImageRegistry | null;
  readonly signal: AbortSignal;
  readonly log: Log;
};

/**
 * Calls `create`, which makes a container. When the engine has lost the image, pulls it from the
 * registry and calls `create` again.
 */
export async function withImage(create: () => Promise<string>, start: ImageStart): Promise<string> {
  const { reference } = start.artifact;
  try {
    return await create();
  } catch (error) {
    const isLost = engineStatus(error) === 404 && /no such image/i.test(String(error));
    if (!isLost || reference === null) throw error;
    await pull(reference, start);
    return await create();
  }
}

/**
 * Whether the engine has the image, if necessary after a pull from the registry. Also true while
 * the engine does not answer: starts wait until it does.
 */
export async function hasImage(start: ImageStart): Promise<boolean> {
  const { engine, artifact, log } = start;
  try {
    await engine.calls.getImage(artifact.image).inspect();
    return true;
  } catch (error) {
    if (isUnreachable(error)) return true;
    if (engineStatus(error) !== 404) throw error;
  }
  if (artifact.reference === null) return false;
  try {
    await pull(artifact.reference, start);
    return true;
  } catch (error) {
    start.signal.throwIfAborted();
    if (isUnreachable(error)) return true;
    log.warn(
      { err: error, image: artifact.reference },
      "an image is neither in the engine nor in the registry",
    );
    return false;
  }
}

async function pull(reference: string, start: ImageStart): Promise<void> {
  start.log.warn({ image: reference }, "an image is no longer in the engine and is pulled");
  await pullFrom(reference, start).catch((error: unknown) => {
    if (isUnreachable(error) || start.signal.aborted) throw error;
    const why =
      "is no longer on this machine, and could not be pulled from the platform's registry";
    throw new StartRefused(`The image of the build ${why}: ${buildAgain}.`, { cause: error });
  });
}

/** Pulls the image. Rejects with any error of the engine or the registry. */
async function pullFrom(
  reference: string,
  { engine, registry, signal }: ImageStart,
): Promise<void> {
  const usual = await usualRegistry(engine);
  const auths =
    registry === null || registry.auth === null
      ? {}
      : registryAuths(registry.auth, [registry.name], usual);
  const output = (await engine.streams.pull(reference, {
    authconfig: authOf(reference, auths, usual),
  })) as Readable;
  // The engine answers 200 before it pulls, and reports an error at the end of its answer.
  let end = "";
  output.on("data", (part: Buffer) => {
    end = `${end}${part.toString()}`.slice(-2_000);
  });
  await finished(output, { signal }).finally(() => output.destroy());
  const [, reason] = /"error":"((?:[^"\\]|\\.)*)"/.exec(end) ?? [];
  if (reason !== undefined) throw new Error(`${reference} was not pulled: ${reason}`);
}
