// Decides which images a build may use, before it begins. The registry of each image must be
// allowed. For an image that is named by digest, the registry must also say that the app may have
// it: BuildKit does not ask again when the engine has the image, so a project would otherwise get
// an image that another project pulled with credentials of its own.
import type { IncomingMessage } from "node:http";
import type Docker from "dockerode";
import { buildAgain } from "@slipway/contract/advice.ts";
import { BuildFailed, type BuildContext, type BuildPlan } from "#drivers/builder.ts";
import { explainPull } from "./build-error.ts";
import { labels } from "./container-spec.ts";
import { unlessStatus, usualRegistry, type Engine } from "./engine.ts";
import { imagesIn, mayPull, registryRefused } from "./image-sources.ts";
import { authOf, digestsIn, imagesOf, registryAuths, type RegistryAuths } from "./registry-auth.ts";

/** The images that a build may use, for checking its requests while it runs. */
export type AllowedImages = {
  /** All images that the build may name. */
  readonly sources: readonly string[];
  /** The app's credentials for registries; null: it has none. */
  readonly auths: RegistryAuths | null;
  /** Whether the build may look up an image, given by BuildKit's name for it. */
  readonly mayLookUp: (image: string) => boolean;
  /** Whether the registry has allowed the digest in the image's name. */
  readonly isDigestChecked: (image: string) => boolean;
};

type BuildFacts = Pick<BuildContext, "registryAuth" | "signal"> & {
  readonly plan: BuildPlan;
  /** The app's own Dockerfile; null: the plan names the base image. */
  readonly dockerfile: string | null;
  /** Registries from which images may be pulled, besides the usual ones; see `mayPull`. */
  readonly moreRegistries: readonly string[];
};

/** The maximum number of digests in a Dockerfile: each takes one request to a registry. */
const digestsMax = 20;
/** How long a registry may take to answer. */
const answerWaitMs = 30_000;
/** How much of an answer is read, since it becomes part of a message. */
const answerCharactersMax = 10_000;

/** Throws `BuildFailed` for the first image that the build may not use. */
export async function allowedImages(
  engine: Pick<Engine, "calls">,
  { plan, dockerfile, moreRegistries, registryAuth, signal }: BuildFacts,
): Promise<AllowedImages> {
  const { calls } = engine;
  // The credentials are for the registries of `bases`. The build may look up all `sources`.
  const bases = dockerfile === null ? [plan.baseImage] : imagesOf(dockerfile);
  const sources = dockerfile === null ? bases : imagesIn(dockerfile, plan.environment);
  const mayLookUp = await checkRegistries(calls, sources, moreRegistries);
  const secret = await registryAuth();
  // `checkRegistries` has let the build have all its images: a name with a digest that may not be
  // looked up is only a word in a command.
  const withDigest = digestsIn(dockerfile ?? plan.baseImage).filter((name) => mayLookUp(name));
  const isRegistryAsked = secret !== null || withDigest.length > 0;
  const defaultRegistry = isRegistryAsked ? await usualRegistry(engine) : "";
  const auths = secret === null ? null : registryAuths(secret, bases, defaultRegistry);
  await checkDigests(calls, withDigest, { auths: auths ?? {}, defaultRegistry, signal });
  const isDigestChecked = (image: string): boolean => {
    const [, digest] = /(@.*)$/s.exec(image) ?? [];
    return digest !== undefined && withDigest.some((name) => name.endsWith(digest));
  };
  return { sources, auths, mayLookUp, isDigestChecked };
}

/**
 * Requires that builds may pull each image from its registry, or that the operator has loaded it
 * into the engine. Throws `BuildFailed` for the first other image. Returns `mayLookUp`.
 */
async function checkRegistries(
  calls: Docker,
  images: readonly string[],
  moreRegistries: readonly string[],
): Promise<AllowedImages["mayLookUp"]> {
  const loaded: string[] = [];
  for (const image of new Set(images)) {
    if (mayPull(image, moreRegistries)) continue;
    if (!(await isLoaded(calls, image))) throw registryRefused(image);
    loaded.push(image);
  }
  const isVersionOf = (image: string, name: string): boolean =>
    image === name || image.startsWith(`${name}:`) || image.startsWith(`${name}@`);
  return (image) =>
    mayPull(image, moreRegistries) || loaded.some((name) => isVersionOf(image, name));
}

/** The names that have no other meaning in a path of the engine's API, as `..` would. */
const nameForm = /^(?!.*\.\.)[\w.:/@-]+$/;

type RegistryAccess = {
  /** The app's credentials. */
  readonly auths: RegistryAuths;
  /** The registry of an image whose name has none. */
  readonly defaultRegistry: string;
  readonly signal: AbortSignal;
};

/**
 * Throws `BuildFailed` for the first image that its registry refuses to give to the app. All
 * `images` are named by digest.
 */
async function checkDigests(
  calls: Docker,
  images: readonly string[],
  { auths, defaultRegistry, signal }: RegistryAccess,
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
    const reason = await registryRefusal(calls, {
      name,
      authconfig: authOf(name, auths, defaultRegistry),
      signal,
    });
    if (reason !== null)
      throw new BuildFailed(explainPull(name, reason, Object.keys(auths).length > 0));
  }
}

/**
 * True when the engine has the image, and no build made it: then the operator has loaded it, for
 * all apps.
 */
async function isLoaded(calls: Docker, name: string): Promise<boolean> {
  if (!nameForm.test(name)) return false;
  // 404: the engine does not have the image.
  const image = await unlessStatus([404], calls.getImage(name).inspect());
  return image !== undefined && image.Config.Labels?.[labels.build] === undefined;
}

/**
 * Asks the registry whether the app may have the image. Null: it may; else the registry's answer,
 * cut off after `answerCharactersMax`.
 */
async function registryRefusal(
  { modem }: Docker,
  image: { readonly name: string; readonly authconfig: unknown; readonly signal: AbortSignal },
): Promise<string | null> {
  const { name, authconfig, signal } = image;
  if (!nameForm.test(name)) return "no image can have this name";
  const timeout = AbortSignal.timeout(answerWaitMs);
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const request = {
    path: `/distribution/${name}/json`,
    method: "GET",
    authconfig,
    isStream: true,
    // Every status counts as a success, so that the answer's text is read here in any case.
    statusCodes: new Proxy({}, { get: () => true }),
    abortSignal: AbortSignal.any([signal, timeout]),
  };
  // `as never`: the types of the client lack some of these fields.
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
    if (timeout.aborted) return `no answer within ${answerWaitMs / 1000} s`;
    throw error;
  }
}

/** The failure of a build that uses a digest which was not found in the Dockerfile's text. */
export function digestNotPlain(image: string): BuildFailed {
  return new BuildFailed(
    `The image ${image.slice(0, 300)} is named by a digest that the Dockerfile composes. Write the name with its digest out in one piece, and ${buildAgain}.`,
  );
}
