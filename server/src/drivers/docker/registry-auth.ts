// Reads an app's credentials for registries, in the two forms of the field dockerAuth, into the
// configuration of the docker client. Only names, passwords and tokens are taken over: the client
// would run programs that a configuration names. Pure.
import { BuildFailed } from "#drivers/builder.ts";
import type { Secret } from "#lib/secret.ts";

/** The part of the client's configuration with credentials, by registry. */
export type RegistryAuths = Readonly<Record<string, Readonly<Record<string, string>>>>;

const fields = ["auth", "username", "password", "identitytoken", "registrytoken"];
const forms = `either Docker's config.json ({"auths": {"<registry>": {"auth": "<base64 of name:password>"}}}) or name:password`;

/**
 * `name:password` counts for the registry that `images` name; when none does, for the engine's own
 * one, `usual`. Throws `BuildFailed` without showing the credentials.
 */
export function registryAuths(
  secret: Secret,
  images: readonly string[],
  usual: string,
): RegistryAuths {
  const text = secret.reveal().trim();
  if (!text.startsWith("{")) {
    if (!/^[^:\s]+:[^\n]+$/.test(text))
      throw new BuildFailed(`dockerAuth is not shown here, but must be ${forms}.`);
    const registries = [...new Set(images.map((image) => registryOf(image, usual)))];
    const named = registries.filter((registry) => registry !== usual);
    if (named.length > 1) {
      throw new BuildFailed(
        `dockerAuth is name:password, but the images are of several registries (${named.join(", ")}): say which of them gets it, with ${forms}.`,
      );
    }
    return { [named[0] ?? usual]: { auth: Buffer.from(text).toString("base64") } };
  }
  const found = entriesOf(text).map(([registry, entry]) => [registry, picked(entry)] as const);
  return Object.fromEntries(found.filter(([, entry]) => Object.keys(entry).length > 0));
}

/** The images that a Dockerfile begins with, without its own stages. */
export function imagesOf(dockerfile: string): string[] {
  const form = /^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*([^\s$]+)(?:[ \t]+AS[ \t]+(\S+))?\s*$/i;
  const lines = dockerfile.split("\n").map((line) => form.exec(line));
  const found = lines.flatMap((match) =>
    match === null ? [] : [{ image: match[1] ?? "", stage: match[2] }],
  );
  const stages = new Set(found.map(({ stage }) => stage));
  return found.flatMap(({ image }) => (stages.has(image) ? [] : [image]));
}

/** The images that a text, such as a Dockerfile, names by digest, wherever it does. */
export function digestsIn(text: string): string[] {
  const lines = text.split("\n").filter((line) => !/^\s*#(?!\s*syntax\s*=)/i.test(line));
  const words = lines.join("\n").split(/[^\w.:/@-]+/);
  return words.flatMap((word) => {
    const at = word.indexOf("@sha");
    const [digest] = /^@sha\d{1,3}:[0-9a-f]{64,128}/.exec(word.slice(at, at + 200)) ?? [];
    return at < 1 || digest === undefined ? [] : [word.slice(Math.max(0, at - 300), at) + digest];
  });
}

/**
 * The credentials for the image's registry in the form of the engine's interface; undefined: there
 * are none.
 */
export function authOf(
  image: string,
  auths: RegistryAuths,
  usual: string,
): Readonly<Record<string, string>> | undefined {
  const hostOf = (name: string): string => name.replace(/^https?:\/\//, "").replace(/\/.*/, "");
  const registry = hostOf(registryOf(image, usual));
  const [, entry] = Object.entries(auths).find(([name]) => hostOf(name) === registry) ?? [];
  if (entry?.["auth"] === undefined) return entry;
  const [username = "", ...password] = Buffer.from(entry["auth"], "base64")
    .toString("utf8")
    .split(":");
  return { ...entry, username, password: password.join(":") };
}

function registryOf(image: string, usual: string): string {
  const first = image.includes("/") ? image.slice(0, image.indexOf("/")) : "";
  const isRegistry = /[.:]/.test(first) || first === "localhost";
  const host = URL.parse(usual)?.hostname ?? usual;
  return isRegistry && host !== first && !host.endsWith(`.${first}`) ? first : usual;
}

function entriesOf(text: string): [string, unknown][] {
  try {
    const config = JSON.parse(text) as Readonly<Record<string, unknown>>;
    const { auths = config } = config;
    return Object.entries(auths as object);
  } catch {
    throw new BuildFailed(`dockerAuth is not shown here, but is no JSON: it must be ${forms}.`);
  }
}

function picked(entry: unknown): Record<string, string> {
  if (typeof entry !== "object" || entry === null) return {};
  const pairs = Object.entries(entry).filter(
    ([name, value]) => fields.includes(name) && typeof value === "string",
  );
  return Object.fromEntries(pairs) as Record<string, string>;
}
