// Decides from which registries builds may pull. A registry's answers say where a token and a layer
// are, and the engine follows them to any address that its machine can reach. So an app that could
// name its own registry could have the engine fetch any address. Pure.
import { buildAgain } from "@slipway/contract/advice.ts";
import { BuildFailed } from "#drivers/builder.ts";

/**
 * Public registries, whose users cannot choose the addresses of tokens and layers. A star stands
 * for one part of a name.
 */
const usualRegistries: readonly string[] = [
  "docker.io",
  "index.docker.io",
  "registry-1.docker.io",
  "ghcr.io",
  "quay.io",
  "gcr.io",
  "*.gcr.io",
  "*.pkg.dev",
  "registry.k8s.io",
  "public.ecr.aws",
  "*.dkr.ecr.*.amazonaws.com",
  "mcr.microsoft.com",
  "*.azurecr.io",
  "nvcr.io",
  "registry.gitlab.com",
  "registry.access.redhat.com",
  "registry.redhat.io",
  "docker.elastic.co",
  "cgr.dev",
];

/**
 * The maximum number of image names that variables can compose; a Dockerfile with more is refused.
 */
const namesMax = 200;
/** The maximum length of an image's name after its variables are replaced. */
const nameCharactersMax = 2_000;
/** The maximum number of lines of an instruction in which the names of its images may stand. */
const linesMax = 50;
/** The maximum number of variables in a name, including the variables in their values. */
const variablesMax = 6;

/** Returns the registry in an image's name, with its port. */
export function registryIn(image: string): string {
  const [first = "", ...rest] = image.split("/");
  // The names of images have no capital letters, so a first part with a capital is a registry.
  const isHost = first === "localhost" || /[.:A-Z]/.test(first);
  const hasRegistry = isHost && rest.length > 0;
  return hasRegistry ? first.toLowerCase() : "docker.io";
}

/**
 * Whether both names are of the same image, in any version. BuildKit completes names: "debian:12"
 * becomes "docker.io/library/debian:12@sha256:…".
 */
export function isSameImage(one: string, other: string): boolean {
  return fullName(one) === fullName(other);
}

/** Returns the name with its registry, and without its version. */
function fullName(image: string): string {
  // Removes the digest, then the tag, which begins with a colon after the last slash.
  const name = image.replace(/@.*$/, "").replace(/:[^:/]*$/, "");
  const registry = registryIn(name);
  const namesRegistry = name.toLowerCase().startsWith(`${registry}/`);
  const path = namesRegistry ? name.slice(registry.length + 1) : name;
  if (registry !== "docker.io" && registry !== "index.docker.io") return `${registry}/${path}`;
  return path.includes("/") ? `docker.io/${path}` : `docker.io/library/${path}`;
}

/**
 * Whether builds may pull from the image's registry. `added`: the registries that the operator has
 * added; `*` stands for all.
 */
export function mayPull(image: string, added: readonly string[]): boolean {
  const registry = registryIn(image);
  return [...usualRegistries, ...added].some(
    (pattern) => pattern === "*" || matches(registry, pattern.toLowerCase()),
  );
}

/** Whether the registry fits the pattern, part by part. */
function matches(registry: string, pattern: string): boolean {
  const parts = registry.split(".");
  const patternParts = pattern.split(".");
  const isMatch = (part: string, index: number): boolean => {
    const patternPart = patternParts[index];
    if (part === patternPart) return true;
    return patternPart === "*" && /^[a-z0-9-]+$/.test(part);
  };
  return parts.length === patternParts.length && parts.every((part, index) => isMatch(part, index));
}

/** Returns the failure of a build that names an image of another registry. */
export function registryRefused(image: string): BuildFailed {
  const registry = registryIn(image).slice(0, 200);
  return new BuildFailed(
    `The image ${image.slice(0, 300)} is at ${registry}, but builds may pull only from ${usualRegistries.join(", ")} and registries that the operator has added, since a registry can make the engine fetch any address that its machine reaches. Use one of these, or ask the operator to add ${registry} to SLIPWAY_DOCKER_REGISTRIES; then ${buildAgain}.`,
  );
}

/**
 * Returns all images that a Dockerfile may name (FROM, COPY --from, RUN --mount=from), except its
 * own stages. Some may be names that BuildKit would not read as images. Throws `BuildFailed` for a
 * name that cannot be known before the build.
 */
export function imagesIn(
  dockerfile: string,
  buildVariables: Readonly<Record<string, string>>,
): string[] {
  const lines = dockerfile.split(/\r?\n/);
  const instructions = lines.flatMap((_line, index) => instructionsAt(lines, index));
  const variables = variablesIn(instructions, buildVariables);
  // A line that only looks like a stage hides no image with a registry: such a name has a slash.
  const stages = new Set(
    instructions.flatMap(
      (text) => /^FROM\s.*\sAS\s+([a-z][a-z0-9_.-]*)\s*$/is.exec(text)?.[1]?.toLowerCase() ?? [],
    ),
  );
  const names = new Set<string>();
  for (const word of instructions.flatMap((text) => namesIn(text))) {
    for (const name of expand(word, variables)) names.add(name);
    if (names.size > namesMax) throw unclearName(word);
  }
  // A number means an earlier stage, and `scratch` an empty image. An empty text names none.
  return [...names].filter(
    (name) => !stages.has(name.toLowerCase()) && !/^(?:\d+|scratch|)$/.test(name),
  );
}

function unclearName(word: string): BuildFailed {
  return new BuildFailed(
    `The image ${word.slice(0, 200)} is composed in a way that does not show its registry. Write the name out, or compose it with ARG and plain variables; then ${buildAgain}.`,
  );
}

/**
 * The beginning of an instruction that may name images. BuildKit counts U+0085 as white space, but
 * `\s` does not match it.
 */
const instructionForm =
  /^[\s\u0085]*(?:ONBUILD[\s\u0085]+)*(?=(?:FROM|COPY|ADD|RUN|ARG)[\s\u0085])/i;

/**
 * Returns the instructions that may begin in this line, joined with the next lines by each of the
 * two continuation characters, since the Dockerfile may set either.
 */
function instructionsAt(lines: readonly string[], index: number): string[] {
  // The first letters of ONBUILD, FROM, COPY, RUN, ADD and ARG.
  if (!/^[\s\u0085]*[ofcra]/i.test(lines[index] ?? "")) return [];
  const joined = ["\\", "`"].map((sign) => joinedFrom(lines, index, sign));
  const instructions = joined
    .filter((text) => instructionForm.test(text))
    .map((text) => text.replace(instructionForm, ""));
  return [...new Set(instructions)];
}

/**
 * Returns the instruction, at least as far as it names images. Throws `BuildFailed` when that takes
 * too many lines.
 */
function joinedFrom(lines: readonly string[], index: number, sign: string): string {
  let joined = "";
  let count = 0;
  for (let at = index; at < lines.length; at++) {
    const line = lines[at] ?? "";
    // Any number of comments and empty lines may stand within an instruction.
    if (joined !== "" && /^[\s\u0085]*(?:#|$)/.test(line)) continue;
    const trimmed = line.trimEnd();
    if (!trimmed.endsWith(sign)) return joined + trimmed;
    joined += trimmed.slice(0, -1);
    if (isDecided(joined)) return joined;
    count++;
    if (count === linesMax) throw unclearName(joined);
  }
  return joined;
}

/** Whether it is certain, whatever lines follow, which images this instruction names. */
function isDecided(joined: string): boolean {
  const text = joined.replace(/^[\s\u0085]*(?:ONBUILD[\s\u0085]+)*/i, "");
  const [, word = "", parameters] = /^(\S*)(?:[\s\u0085]+(.*))?$/s.exec(text) ?? [];
  // The word may go on in the next line. One that is longer than ONBUILD cannot name images.
  if (parameters === undefined) return word.length > "ONBUILD".length;
  if (/^(?:FROM|ARG)$/i.test(word)) return false;
  if (!/^(?:COPY|ADD|RUN)$/i.test(word)) return true;
  let rest = parameters;
  let flag = flagForm.exec(rest);
  while (flag !== null) {
    rest = rest.slice(flag[0].length);
    // What follows is a quotation that has not ended yet: it belongs to the flag.
    if (/^[^\s\u0085]/.test(rest)) return false;
    rest = rest.trimStart();
    flag = flagForm.exec(rest);
  }
  // A single "-" may become a flag with the next line.
  return rest !== "" && rest !== "-";
}

/** A word that begins with `--`, as BuildKit cuts it out of a line. */
const flagForm = /^--(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\\.|[^\s\u0085"'\\])*/;

/** Returns the names of images in one instruction, as they are written. */
function namesIn(text: string): string[] {
  const isFrom = /^FROM/i.test(text);
  if (!isFrom && !/^(?:COPY|ADD|RUN)/i.test(text)) return [];
  let rest = text.replace(/^\w+[\s\u0085]+/, "");
  const names: string[] = [];
  for (let flag = flagForm.exec(rest)?.[0]; flag !== undefined; flag = flagForm.exec(rest)?.[0]) {
    // COPY has a flag `--from`; RUN has a field `from` in its flag `--mount`.
    const plain = flag.replace(/[\\"']/g, "").replace(/^--/, "");
    if (!isFrom)
      names.push(
        ...[...plain.matchAll(/(?<=^|[=,\s])from=([^\s,]*)/gi)].map(([, name = ""]) => name),
      );
    rest = rest.slice(flag.length).trimStart();
  }
  const composed = names.find((name) => name.includes("$"));
  if (composed !== undefined) throw unclearName(composed);
  return isFrom ? [rest.split(/[\s\u0085]/)[0] ?? ""] : names;
}

type Variables = ReadonlyMap<string, ReadonlySet<string>>;

/** Returns the possible values of each variable: from the build, or from any ARG that sets it. */
function variablesIn(
  instructions: readonly string[],
  buildVariables: Readonly<Record<string, string>>,
): Variables {
  const variables = new Map(
    Object.entries(buildVariables).map(([name, value]) => [name, new Set([value])]),
  );
  for (const text of instructions.filter((instruction) => /^ARG/i.test(instruction))) {
    // Also looks within quotations, since an escaped quote begins no quotation. A match has no
    // length, so that the next match may begin within the value of this one.
    for (const [, name = "", value = ""] of text.matchAll(
      /(?<=[\s\u0085])(?=(\w+)=((?:"[^"]*"|'[^']*'|[^\s\u0085"'])*))/g,
    )) {
      const values = variables.get(name) ?? new Set<string>();
      variables.set(name, values.add(value));
    }
  }
  return variables;
}

/** `$name` or `${name}`, or with a text for a variable without a value, as in `${name:-text}`. */
const variableForm = /\$(?:(\w+)|\{(\w+)(?::?-([^{}$]*))?\})/;

/**
 * Returns all texts that the word may become with its variables, without quotes and escapes.
 * `replaced`: how many variables have already been replaced in the word.
 */
function expand(word: string, variables: Variables, replaced = 0): string[] {
  const match = variableForm.exec(word);
  if (match === null) {
    const plain = word.replace(/[\\`'"]/g, "");
    if (plain.includes("$") || plain.length > nameCharactersMax) throw unclearName(word);
    return [plain];
  }
  const [whole, short, long, otherwise] = match;
  if (replaced === variablesMax) throw unclearName(word);
  const values = [...(variables.get(short ?? long ?? "") ?? [])];
  if (otherwise !== undefined) values.push(otherwise);
  // A variable without a known value is empty, or one of BuildKit's own, such as TARGETARCH, whose
  // values are plain words.
  if (values.length === 0) values.push("", "x");
  // A function returns each value, since `replace` would give `$` in a text a meaning.
  const candidates = values.map((value) => word.replace(whole, () => value));
  if (candidates.length > namesMax) throw unclearName(word);
  const names = candidates.flatMap((candidate) => expand(candidate, variables, replaced + 1));
  if (names.length > namesMax) throw unclearName(word);
  return names;
}
