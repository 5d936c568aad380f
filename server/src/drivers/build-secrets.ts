// The secrets of one build: decides which step gets which of them, and hides their values in
// everything that the build prints. Pure.
import type { Secret } from "#lib/secret.ts";

/** The values of secrets, by the name of the environment variable that each becomes. */
export type BuildSecrets = ReadonlyMap<string, Secret>;

/** Replaces the value of a secret in a text. */
const mark = "[secret]";
/** Shorter values are not hidden: they also occur in texts that are not secret. */
const hiddenLengthMin = 4;
/** How many lines of one value, such as a key, are also hidden one by one. */
const linesMax = 60;
/** Variables that pip and uv read by themselves, such as PIP_INDEX_URL. */
const installerForm = /^(?:PIP|UV)_/;

/**
 * The secrets for the installation of Python packages: those that the requirements name as
 * `${NAME}`, and those that pip and uv read by themselves.
 */
export function secretsOfPackages(
  secrets: BuildSecrets,
  requirements: readonly string[],
): BuildSecrets {
  const names = namesForPackages([...secrets.keys()], requirements);
  return new Map([...secrets].filter(([name]) => names.includes(name)));
}

/** Returns which of these secrets `secretsOfPackages` would choose. Knows only their names. */
export function namesForPackages(
  names: readonly string[],
  requirements: readonly string[],
): string[] {
  const named = new Set(requirements.flatMap((line) => variablesIn(line)));
  return names.filter((name) => named.has(name) || installerForm.test(name));
}

/** Variables that pip replaces in a line of a requirements file. */
export function variablesIn(line: string): string[] {
  return [...line.matchAll(/\$\{([A-Z0-9_]+)\}/g)].map(([, name = ""]) => name);
}

/** The values as text, only to be used as the environment of a step that may have them. */
export function revealed(secrets: BuildSecrets): Record<string, string> {
  return Object.fromEntries([...secrets].map(([name, value]) => [name, value.reveal()]));
}

/**
 * Hides the values of secrets in a text, also inside URLs and in base64. A value that a step has
 * changed in another way, such as printed backwards, is not recognized.
 */
export type Mask = (text: string) => string;

/** The mask for these secrets. */
export function maskOf(secrets: BuildSecrets): Mask {
  const forms = new Set([...secrets.values()].flatMap((secret) => formsOf(secret.reveal())));
  // Longer forms are replaced first, since a longer form may contain a shorter one.
  const longestFirst = [...forms].toSorted((one, other) => other.length - one.length);
  return (text) => longestFirst.reduce((shown, form) => shown.replaceAll(form, mark), text);
}

/** The texts as which a value may be printed. */
function formsOf(value: string): string[] {
  const lines = value.split(/\r?\n/).slice(0, linesMax);
  const plain = [value, value.trim(), ...lines.map((line) => line.trim())];
  const encoded = [
    encodeURIComponent(value),
    // Without the quotation marks.
    JSON.stringify(value).slice(1, -1),
    ...base64Of(value),
    ...wrappedOf(value),
  ];
  return [...plain, ...encoded].filter((form) => form.length >= hiddenLengthMin);
}

/**
 * The lines of 76 characters in which the program base64 prints a long value; also the last line,
 * unless it is short.
 */
function wrappedOf(value: string): string[] {
  const lines =
    Buffer.from(value)
      .toString("base64")
      .match(/.{8,76}/g) ?? [];
  return lines.slice(0, linesMax);
}

/**
 * The base64 characters that depend on the value alone, when it is encoded within a longer text.
 * There are three cases, since base64 encodes three bytes at a time. A byte has 8 bits, and a
 * base64 character stands for 6.
 */
function base64Of(value: string): string[] {
  return [0, 1, 2].flatMap((bytesBefore) => {
    const bytes = Buffer.concat([Buffer.alloc(bytesBefore), Buffer.from(value)]);
    const firstOwn = Math.ceil((bytesBefore * 8) / 6);
    const endOfOwn = Math.floor((bytes.length * 8) / 6);
    const own = bytes.toString("base64").slice(firstOwn, endOfOwn);
    return [own, own.replaceAll("+", "-").replaceAll("/", "_")];
  });
}
