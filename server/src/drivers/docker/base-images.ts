// Decides which images a build may use, before it begins. Their registries have to be allowed, and
// the registry is asked whether the app may have those that are named by digest: BuildKit does not
// ask again for what the engine holds, so a project would get what another one has pulled with its
// credentials.
import type { IncomingMessage } from "node:http";
import type Docker from "dockerode";
import { buildAgain } from "@slipway/contract/advice.ts";
import { BuildFailed, type BuildContext, type BuildPlan } from "#drivers/builder.ts";
import { explainPull } from "./build-error.ts";
import { labels } from "./container-spec.ts";
import { unlessStatus, usualRegistry, type Engine } from "./engine.ts";
import { imagesIn, mayPull, registryRefused } from "./image-sources.ts";
import { authOf, digestsIn, imagesOf, registryAuths, type RegistryAuths } from "./registry-auth.ts";

/** What a build may use, for judging what it asks for while it runs. */
export type AllowedImages = {
  /** All images that the build may name. */
  readonly sources: readonly string[];
  /** The app's credentials for registries; null: it has none. */
  readonly auths: RegistryAuths | null;
  /** Whether the build may look up an image, by the name that BuildKit has for it. */
  readonly mayLookUp: (image: string) => boolean;
  /** Whether the digest in the name is one that the registry was asked about. */
  readonly isDigestChecked: (image: string) => boolean;
};

type Given = Pick<BuildContext, "registryAuth" | "signal"> & {
  readonly plan: BuildPlan;
  /** The app's own Dockerfile; null: the plan names the base image. */
  readonly dockerfile: string | null;
  /** See `mayPull`. */
  readonly moreRegistries: readonly string[];
};

/** Each is asked of a registry, one after the other. */
const digestsMax = 20;
const answerWaitMs = 30_000;
const answerCharactersMax = 10_000;

/** Throws `BuildFailed` for the first image that the build may not use. */
export async function allowedImages(
  engine: Pick<Engine, "calls">,
  { plan, dockerfile, moreRegistries, registryAuth, signal }: Given,
): Promise<AllowedImages> {
  const { calls } = engine;
  const bases = dockerfile === null ? [plan.baseImage] : imagesOf(dockerfile);
  const sources = dockerfile === null ? bases : imagesIn(dockerfile, plan.environment);
  const mayLookUp = await checkRegistries(calls, sources, moreRegistries);
  const secret = await registryAuth();
  // Names of other registries are part of commands: as images they have just been refused.
  const named = digestsIn(dockerfile ?? plan.baseImage).filter((name) => mayLookUp(name));
  const isUsualNeeded = secret !== null || named.length > 0;
  const usual = isUsualNeeded ? await usualRegistry(engine) : "";
  const auths = secret === null ? null : registryAuths(secret, bases, usual);
  await checkDigests(calls, named, { auths: auths ?? {}, usual, signal });
  return {
    sources,
    auths,
    mayLookUp,
    isDigestChecked: (image) => named.some((one) => one.endsWith(image.slice(image.indexOf("@")))),
  };
}

/**
 * Throws `BuildFailed` for the first image that is neither in the engine nor at a registry that
 * builds may pull from. Returns `mayLookUp`.
 */
async function checkRegistries(
  calls: Docker,
  images: readonly string[],
  more: readonly string[],
): Promise<AllowedImages["mayLookUp"]> {
  const loaded: string[] = [];
  for (const image of new Set(images)) {
    if (mayPull(image, more)) continue;
    if (!nameForm.test(image) || !(await isLoaded(calls, image))) throw registryRefused(image);
    loaded.push(image);
  }
  const isOf = (image: string, name: string): boolean =>
    image === name || image.startsWith(`${name}:`) || image.startsWith(`${name}@`);
  return (image) => mayPull(image, more) || loaded.some((name) => isOf(image, name));
}

/** Without options of a path, which the engine's interface could read otherwise. */
const nameForm = /^(?!.*\.\.)[\w.:/@-]+$/;

type Asked = {
  /** The app's credentials. */
  readonly auths: RegistryAuths;
  /** The registry of names without one. */
  readonly usual: string;
  readonly signal: AbortSignal;
};

/**
 * Throws `BuildFailed` for the first of these images, named by digest, that the registry does not
 * give the app.
 */
async function checkDigests(
  calls: Docker,
  images: readonly string[],
  { auths, usual, signal }: Asked,
): Promise<void> {
  const names = new Set(images);
  if (names.size > digestsMax) {
    throw new BuildFailed(
      `The Dockerfile names ${names.size} images by digest. At most ${digestsMax} are possible: use fewer, and ${buildAgain}.`,
    );
  }
  for (const name of names) {
    signal.throwIfAborted();
    if (await isLoaded(calls, name)) continue;
    const reason = await whyNotGiven(calls, {
      name,
      authconfig: authOf(name, auths, usual),
      signal,
    });
    if (reason !== null)
      throw new BuildFailed(explainPull(name, reason, Object.keys(auths).length > 0));
  }
}

/** What the operator has loaded is for everybody; images of apps are not. */
async function isLoaded(calls: Docker, name: string): Promise<boolean> {
  const held = await unlessStatus([404], calls.getImage(name).inspect());
  return held !== undefined && held.Config.Labels?.[labels.build] === undefined;
}

/**
 * What the registry says against it; null: the app may have the image. The registry's answer can
 * have any size.
 */
async function whyNotGiven(
  { modem }: Docker,
  {
    name,
    authconfig,
    signal,
  }: { readonly name: string; readonly authconfig: unknown; readonly signal: AbortSignal },
): Promise<string | null> {
  const late = AbortSignal.timeout(answerWaitMs);
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const request = {
    path: `/distribution/${name}/json`,
    method: "GET",
    authconfig,
    isStream: true,
    // All of them: the text of an answer is read here.
    statusCodes: new Proxy({}, { get: () => true }),
    abortSignal: AbortSignal.any([signal, late]),
  };
  modem.dial(request as never, (error: Error | null, answer) =>
    error === null ? resolve(answer as IncomingMessage) : reject(error),
  );
  try {
    const answer = await promise;
    if (answer.statusCode === 200) {
      answer.destroy();
      return null;
    }
    let text = "";
    for await (const part of answer.setEncoding("utf8")) {
      text += part as string;
      if (text.length > answerCharactersMax) break;
    }
    return text.slice(0, answerCharactersMax);
  } catch (error) {
    signal.throwIfAborted();
    if (late.aborted) return `no answer within ${answerWaitMs / 1000} s`;
    throw error;
  }
}

/** The failure of a build with an image by digest that the registry was not asked about. */
export function digestNotPlain(image: string): BuildFailed {
  return new BuildFailed(
    `The image ${image.slice(0, 300)} is named by a digest that the Dockerfile composes. Write the name with its digest out in one piece, and ${buildAgain}.`,
  );
}
