// Turns an app's credentials for registries, in either form of the field dockerAuth, into the
// configuration of the docker client. Takes over only names, passwords and tokens: a configuration
// may also name programs, and the client would run them. Pure.
import { BuildFailed } from "#drivers/builder.ts";
import type { Secret } from "#lib/secret.ts";

/** The part of the client's configuration with credentials, by registry. */
export type RegistryAuths = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** The fields that are taken over from an app's configuration. */
const fields = ["auth", "username", "password", "identitytoken", "registrytoken"];
const forms = `either Docker's config.json ({"auths": {"<registry>": {"auth": "<base64 of name:password>"}}}) or name:password`;

/**
 * The credentials in the field dockerAuth, by registry. The form `name:password` names no registry:
 * it counts for the one registry of `images` besides the engine's default registry, or for the
 * default registry if all images are there. Throws `BuildFailed` without showing the credentials.
 */
export function registryAuths(
  secret: Secret,
  images: readonly string[],
  defaultRegistry: string,
): RegistryAuths {
  const text = secret.reveal().trim();
  if (!text.startsWith("{")) {
    if (!/^[^:\s]+:[^\n]+$/.test(text))
      throw new BuildFailed(`dockerAuth is not shown here, but must be ${forms}.`);
    const registries = [...new Set(images.map((image) => registryOf(image, defaultRegistry)))];
    const named = registries.filter((registry) => registry !== defaultRegistry);
    if (named.length > 1) {
      throw new BuildFailed(
        `dockerAuth is name:password, but the images are of several registries (${named.join(", ")}): say which of them gets it, with ${forms}.`,
      );
    }
    return { [named[0] ?? defaultRegistry]: { auth: Buffer.from(text).toString("base64") } };
  }
  const entries = entriesOf(text).map(
    ([registry, entry]) => [registry, credentialsIn(entry)] as const,
  );
  return Object.fromEntries(
    entries.filter(([, credentials]) => Object.keys(credentials).length > 0),
  );
}

/**
 * The images in the FROM lines of a Dockerfile, except those that name an earlier stage, and those
 * whose names contain variables.
 */
export function imagesOf(dockerfile: string): string[] {
  const form = /^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*([^\s$]+)(?:[ \t]+AS[ \t]+(\S+))?\s*$/i;
  const lines = dockerfile.split("\n").map((line) => form.exec(line));
  const found = lines.flatMap((match) =>
    match === null ? [] : [{ image: match[1] ?? "", stage: match[2] }],
  );
  const stages = new Set(found.map(({ stage }) => stage));
  return found.map(({ image }) => image).filter((image) => !stages.has(image));
}

/** The images with a digest (`name@sha256:…`) anywhere in a text, such as a Dockerfile. */
export function digestsIn(text: string): string[] {
  // A comment names no image, except the one that asks for another reader of the Dockerfile.
  const lines = text.split("\n").filter((line) => !/^\s*#(?!\s*syntax\s*=)/i.test(line));
  const words = lines.join("\n").split(/[^\w.:/@-]+/);
  return words.flatMap((word) => {
    const at = word.indexOf("@sha");
    // The bounds are far beyond real names and digests. They limit the work for a long word.
    const [digest] = /^@sha\d{1,3}:[0-9a-f]{64,128}/.exec(word.slice(at, at + 200)) ?? [];
    if (at < 1 || digest === undefined) return [];
    const name = word.slice(Math.max(0, at - 300), at);
    return [name + digest];
  });
}

/**
 * The credentials for the image's registry, in the form that the engine's API takes; undefined:
 * there are none.
 */
export function authOf(
  image: string,
  auths: RegistryAuths,
  defaultRegistry: string,
): Readonly<Record<string, string>> | undefined {
  const hostOf = (name: string): string => name.replace(/^https?:\/\//, "").replace(/\/.*/, "");
  const registry = hostOf(registryOf(image, defaultRegistry));
  const [, entry] = Object.entries(auths).find(([name]) => hostOf(name) === registry) ?? [];
  if (entry?.["auth"] === undefined) return entry;
  // A password may contain a colon, a name may not.
  const [username = "", ...password] = Buffer.from(entry["auth"], "base64")
    .toString("utf8")
    .split(":");
  return { ...entry, username, password: password.join(":") };
}

/** The registry in an image's name; for a name without a registry, the default registry. */
function registryOf(image: string, defaultRegistry: string): string {
  const firstPart = image.includes("/") ? image.slice(0, image.indexOf("/")) : "";
  const isRegistry = /[.:]/.test(firstPart) || firstPart === "localhost";
  if (!isRegistry) return defaultRegistry;
  // For example, `docker.io` means the default registry `https://index.docker.io/v1/`.
  const defaultHost = URL.parse(defaultRegistry)?.hostname ?? defaultRegistry;
  const isDefault = defaultHost === firstPart || defaultHost.endsWith(`.${firstPart}`);
  return isDefault ? defaultRegistry : firstPart;
}

/** The registries with their entries, in Docker's config.json or in its part `auths`. */
function entriesOf(text: string): [string, unknown][] {
  try {
    const config = JSON.parse(text) as Readonly<Record<string, unknown>>;
    const { auths = config } = config;
    return Object.entries(auths as object);
  } catch {
    throw new BuildFailed(`dockerAuth is not shown here, but is not JSON: it must be ${forms}.`);
  }
}

function credentialsIn(entry: unknown): Record<string, string> {
  if (typeof entry !== "object" || entry === null) return {};
  const pairs = Object.entries(entry).filter(
    ([name, value]) => fields.includes(name) && typeof value === "string",
  );
  return Object.fromEntries(pairs) as Record<string, string>;
}
