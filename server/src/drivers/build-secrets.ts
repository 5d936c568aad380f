// The secrets of one build: which step gets which, and what hides their values in all that the
// build prints. Pure.
import type { Secret } from "#lib/secret.ts";

/** Values by name, which is that of an environment variable. */
export type BuildSecrets = ReadonlyMap<string, Secret>;

/** What stands for the value of a secret in a text. */
const mark = "[secret]";
/** Shorter values, such as a version, would hide too much of what is not secret. */
const hiddenLengthMin = 4;
/** Lines of one value, such as a key, that are hidden one by one. */
const linesMax = 60;
/** Variables that pip and uv read by themselves, such as PIP_INDEX_URL. */
const installerForm = /^(?:PIP|UV)_/;

/**
 * Returns the secrets that the installation of Python packages gets: its lines name them, as
 * `${NAME}`, or pip and uv read them by themselves.
 */
export function secretsOfPackages(
  secrets: BuildSecrets,
  requirements: readonly string[],
): BuildSecrets {
  const names = namesForPackages([...secrets.keys()], requirements);
  return new Map([...secrets].filter(([name]) => names.includes(name)));
}

/** The same of their names. */
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

/** Reveals them: for the environment of a step that may have them, and nothing else. */
export function revealed(secrets: BuildSecrets): Record<string, string> {
  return Object.fromEntries([...secrets].map(([name, value]) => [name, value.reveal()]));
}

/**
 * Hides the values in a text, also as parts of addresses and in base64. What a step changes in
 * another way, such as a value printed backwards, is not recognized.
 */
export type Mask = (text: string) => string;

/** The mask for these secrets. */
export function maskOf(secrets: BuildSecrets): Mask {
  const forms = new Set([...secrets.values()].flatMap((secret) => formsOf(secret.reveal())));
  // A longer one may begin with a shorter one.
  const ordered = [...forms].toSorted((one, other) => other.length - one.length);
  return (text) => ordered.reduce((shown, form) => shown.replaceAll(form, mark), text);
}

function formsOf(value: string): string[] {
  const lines = value.split(/\r?\n/).slice(0, linesMax);
  const plain = [value, value.trim(), ...lines.map((line) => line.trim())];
  const whole = [
    encodeURIComponent(value),
    JSON.stringify(value).slice(1, -1),
    ...base64Of(value),
    ...wrappedOf(value),
  ];
  return [...plain, ...whole].filter((form) => form.length >= hiddenLengthMin);
}

/** The lines that the program base64 makes of a long one, but for a short last one. */
function wrappedOf(value: string): string[] {
  const lines =
    Buffer.from(value)
      .toString("base64")
      .match(/.{8,76}/g) ?? [];
  return lines.slice(0, linesMax);
}

/** The characters that the value determines, wherever it stands in what is encoded. */
function base64Of(value: string): string[] {
  return [0, 1, 2].flatMap((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(value)]);
    const first = Math.ceil((before * 8) / 6);
    const inside = bytes.toString("base64").slice(first, Math.floor((bytes.length * 8) / 6));
    return [inside, inside.replaceAll("+", "-").replaceAll("/", "_")];
  });
}
