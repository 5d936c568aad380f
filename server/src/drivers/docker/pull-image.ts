// Gets an image of a build back from the operator's registry, when somebody has removed it from the engine.
import { finished } from "node:stream/promises";
import type { Readable } from "node:stream";
import type { Log } from "#lib/log.ts";
import type { Secret } from "#lib/secret.ts";
import type { DockerArtifact } from "./artifact.ts";
import { engineStatus, type Engine } from "./engine.ts";
import { authOf, registryAuths } from "./registry-auth.ts";

/** Where images are pushed, with the operator's credentials. */
export type ImageRegistry = { readonly name: string; readonly auth: Secret | null };

const pullWaitMs = 600_000;

type Given = {
  readonly engine: Pick<Engine, "calls" | "streams">;
  readonly artifact: DockerArtifact;
  /** Null: images are only in the engine. */
  readonly registry: ImageRegistry | null;
  readonly signal: AbortSignal;
  readonly log: Log;
};

/** Like `create`, which makes a container, but first pulls the image when the engine has lost it and the registry has it. */
export async function withImage(create: () => Promise<string>, given: Given): Promise<string> {
  const { reference } = given.artifact;
  try {
    return await create();
  } catch (error) {
    const isLost = engineStatus(error) === 404 && /no such image/i.test(String(error));
    if (!isLost || reference === null) throw error;
    given.log.warn({ image: reference }, "an image is no longer in the engine and is pulled");
    await pull(reference, given);
    return await create();
  }
}

async function pull(reference: string, { engine, registry, signal }: Given): Promise<void> {
  const { IndexServerAddress: usual } = (await engine.calls.info()) as { readonly IndexServerAddress: string };
  const auths = registry === null || registry.auth === null ? {} : registryAuths(registry.auth, [registry.name], usual);
  const output = (await engine.streams.pull(reference, { authconfig: authOf(reference, auths, usual) })) as Readable;
  let end = "";
  output.on("data", (part: Buffer) => (end = `${end}${part.toString()}`.slice(-2_000)));
  await finished(output, { signal: AbortSignal.any([signal, AbortSignal.timeout(pullWaitMs)]) }).finally(() =>
    output.destroy(),
  );
  const [, reason] = /"error":"((?:[^"\\]|\\.)*)"/.exec(end) ?? [];
  if (reason !== undefined) throw new Error(`${reference} was not pulled: ${reason}`);
}
