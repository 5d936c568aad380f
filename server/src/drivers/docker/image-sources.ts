// Decides from which registries builds may pull. The engine follows what a registry answers (where
// to get a token, where a layer is) to any address of its machine, so whoever can name a registry
// of their own would have it fetch those. Pure.
import { buildAgain } from "@slipway/contract/advice.ts";
import { BuildFailed } from "#drivers/builder.ts";

/**
 * Public registries at which people have accounts, but say neither where tokens are nor where
 * layers are. A star stands for one part of a name.
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

/** Names of images that variables can compose; a Dockerfile with more is refused. */
const namesMax = 200;
const lineCharactersMax = 2_000;
/** Lines of an instruction before it is clear which images it names; one with more is refused. */
const linesMax = 50;
const pathMax = 5;

/** The registry in an image's name, with its port. */
export function registryIn(image: string): string {
  const [first = "", ...rest] = image.split("/");
  const isRegistry =
    rest.length > 0 && (/[.:]/.test(first) || first === "localhost" || /[A-Z]/.test(first));
  return isRegistry ? first.toLowerCase() : "docker.io";
}

/**
 * Whether both name the same image, in any version. BuildKit writes names out, as
 * "docker.io/library/debian:12@sha256:…" for "debian:12".
 */
export function isSameImage(one: string, other: string): boolean {
  return writtenOut(one) === writtenOut(other);
}

/** The name with its registry, and without its version. */
function writtenOut(image: string): string {
  const name = image.replace(/@.*$/, "").replace(/:[^:/]*$/, "");
  const registry = registryIn(name);
  const isPath = !name.toLowerCase().startsWith(`${registry}/`);
  const path = isPath ? name : name.slice(registry.length + 1);
  if (registry !== "docker.io" && registry !== "index.docker.io") return `${registry}/${path}`;
  return `docker.io/${path.includes("/") ? path : `library/${path}`}`;
}

/**
 * Whether builds may pull from the image's registry; `more`: those that the operator has added, `*`
 * for all.
 */
export function mayPull(image: string, more: readonly string[]): boolean {
  const registry = registryIn(image);
  return [...usualRegistries, ...more].some(
    (form) => form === "*" || isOfForm(registry, form.toLowerCase()),
  );
}

function isOfForm(registry: string, form: string): boolean {
  const own = registry.split(".");
  const wanted = form.split(".");
  const isSame = (part: string, index: number): boolean =>
    part === wanted[index] || (wanted[index] === "*" && /^[a-z0-9-]+$/.test(part));
  return own.length === wanted.length && own.every((part, index) => isSame(part, index));
}

/** The failure of a build that names an image of another registry. */
export function registryRefused(image: string): BuildFailed {
  const registry = registryIn(image).slice(0, 200);
  return new BuildFailed(
    `The image ${image.slice(0, 300)} is at ${registry}, and builds may pull from ${usualRegistries.join(", ")} and what the operator has added: a registry can have the engine fetch any address of its machine. Use one of these, or ask the operator to add ${registry} to SLIPWAY_DOCKER_REGISTRIES; then ${buildAgain}.`,
  );
}

/**
 * All images that a Dockerfile may name (FROM, COPY --from, RUN --mount=from), except its own
 * stages. There may be names that BuildKit would not read as images. Throws `BuildFailed` for a
 * name that cannot be known before the build.
 */
export function imagesIn(
  dockerfile: string,
  buildVariables: Readonly<Record<string, string>>,
): string[] {
  const lines = dockerfile.split(/\r?\n/);
  const read = lines.flatMap((_line, index) => instructionsAt(lines, index));
  const variables = variablesIn(read, buildVariables);
  // A line that only looks like a stage can name none that has a registry.
  const stages = new Set(
    read.flatMap(
      (text) => /^FROM\s.*\sAS\s+([a-z][a-z0-9_.-]*)\s*$/is.exec(text)?.[1]?.toLowerCase() ?? [],
    ),
  );
  const names = new Set<string>();
  for (const word of read.flatMap((text) => namesIn(text))) {
    for (const name of expanded(word, variables)) names.add(name);
    if (names.size > namesMax) throw cannotTell(word);
  }
  return [...names].filter(
    (name) => !stages.has(name.toLowerCase()) && !/^(?:\d+|scratch|)$/.test(name),
  );
}

function cannotTell(word: string): BuildFailed {
  return new BuildFailed(
    `The image ${word.slice(0, 200)} is composed in a way that does not show its registry. Write the name out, or compose it with ARG and plain variables; then ${buildAgain}.`,
  );
}

const instructionForm =
  /^[\s\u0085]*(?:ONBUILD[\s\u0085]+)*(?=(?:FROM|COPY|ADD|RUN|ARG)[\s\u0085])/i;

/**
 * What begins in this line: joined with the next ones by each sign of continuation, since either
 * may be set.
 */
function instructionsAt(lines: readonly string[], index: number): string[] {
  if (!/^[\s\u0085]*[ofcra]/i.test(lines[index] ?? "")) return [];
  const joined = ["\\", "`"].map((sign) => joinedFrom(lines, index, sign));
  const found = joined
    .filter((text) => instructionForm.test(text))
    .map((text) => text.replace(instructionForm, ""));
  return [...new Set(found)];
}

/**
 * The instruction, at least as far as it names images. Throws `BuildFailed` for one that goes on
 * for too many lines.
 */
function joinedFrom(lines: readonly string[], index: number, sign: string): string {
  let joined = "";
  let count = 0;
  for (let at = index; at < lines.length; at++) {
    const line = lines[at] ?? "";
    // Remarks and empty lines may stand within an instruction, any number of them.
    if (joined !== "" && /^[\s\u0085]*(?:#|$)/.test(line)) continue;
    const trimmed = line.trimEnd();
    if (!trimmed.endsWith(sign)) return joined + trimmed;
    joined += trimmed.slice(0, -1);
    if (isDecided(joined)) return joined;
    if (++count === linesMax) throw cannotTell(joined);
  }
  return joined;
}

/** Whether the lines that follow cannot change which images this beginning names. */
function isDecided(joined: string): boolean {
  const text = joined.replace(/^[\s\u0085]*(?:ONBUILD[\s\u0085]+)*/i, "");
  const [, word = "", parameters] = /^(\S*)(?:[\s\u0085]+(.*))?$/s.exec(text) ?? [];
  // The word may go on in the next line.
  if (parameters === undefined) return word.length > "ONBUILD".length;
  if (/^(?:FROM|ARG)$/i.test(word)) return false;
  if (!/^(?:COPY|ADD|RUN)$/i.test(word)) return true;
  let rest = parameters;
  for (let flag = flagForm.exec(rest)?.[0]; flag !== undefined; flag = flagForm.exec(rest)?.[0]) {
    rest = rest.slice(flag.length);
    // A quotation that is still open.
    if (/^[^\s\u0085]/.test(rest)) return false;
    rest = rest.trimStart();
  }
  return rest.length > 1 || /^[^-]$/.test(rest);
}

/** A word that begins with `--`, as BuildKit cuts it out of a line. */
const flagForm = /^--(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\\.|[^\s\u0085"'\\])*/;

/** The names in one instruction, as they are written. */
function namesIn(text: string): string[] {
  const isFrom = /^FROM/i.test(text);
  if (!isFrom && !/^(?:COPY|ADD|RUN)/i.test(text)) return [];
  let rest = text.replace(/^\w+[\s\u0085]+/, "");
  const names: string[] = [];
  for (let flag = flagForm.exec(rest)?.[0]; flag !== undefined; flag = flagForm.exec(rest)?.[0]) {
    // Of COPY a flag of its own, of RUN a field of its flag.
    const plain = flag.replace(/[\\"']/g, "").replace(/^--/, "");
    if (!isFrom)
      names.push(
        ...[...plain.matchAll(/(?<=^|[=,\s])from=([^\s,]*)/gi)].map(([, name = ""]) => name),
      );
    rest = rest.slice(flag.length).trimStart();
  }
  const composed = names.find((name) => name.includes("$"));
  if (composed !== undefined) throw cannotTell(composed);
  return isFrom ? [rest.split(/[\s\u0085]/)[0] ?? ""] : names;
}

type Variables = ReadonlyMap<string, ReadonlySet<string>>;

/** What each may be: the value that it is given, or any that the Dockerfile has for it. */
function variablesIn(
  read: readonly string[],
  buildVariables: Readonly<Record<string, string>>,
): Variables {
  const found = new Map(
    Object.entries(buildVariables).map(([name, value]) => [name, new Set([value])]),
  );
  for (const text of read.filter((one) => /^ARG/i.test(one))) {
    for (const [, name = "", value = ""] of text.matchAll(
      /(?<=\s)(\w+)=("[^"]*"|'[^']*'|[^\s"']*)/g,
    )) {
      const values = found.get(name) ?? new Set<string>();
      found.set(name, values.add(value));
    }
  }
  return found;
}

const variableForm = /\$(?:(\w+)|\{(\w+)(?::?-([^{}$]*))?\})/;

/** All that the word may be with its variables put in, without quotes and signs of escape. */
function expanded(word: string, variables: Variables, depth = 0): string[] {
  const match = variableForm.exec(word);
  if (match === null) {
    const plain = word.replace(/[\\`'"]/g, "");
    if (plain.includes("$") || plain.length > lineCharactersMax) throw cannotTell(word);
    return [plain];
  }
  const [whole, short, long, otherwise] = match;
  const values = [
    ...(variables.get(short ?? long ?? "") ?? []),
    ...(otherwise === undefined ? [] : [otherwise]),
  ];
  if (depth > pathMax) throw cannotTell(word);
  // Those that only BuildKit knows, such as TARGETARCH, are plain words, and others empty.
  const all = (values.length === 0 ? ["", "x"] : values).map((value) =>
    word.replace(whole, () => value),
  );
  if (all.length > namesMax) throw cannotTell(word);
  const found = all.flatMap((one) => expanded(one, variables, depth + 1));
  if (found.length > namesMax) throw cannotTell(word);
  return found;
}
