// How much an app's own Dockerfile can grow when its variables are put in. BuildKit does that in
// the engine's own process, without a limit: ten lines that each name the one before ten times
// would take its memory, and with it all containers. Pure.

/**
 * The assumed length of a variable that the Dockerfile does not define: it comes from the build's
 * arguments or from the base image.
 */
const unknownCharacters = 200;
const reference = /\$\{?(\w+)/g;
/** `${name/pattern/replacement}` can put the replacement in once for each character. */
const replacing = /\$\{\w+\//;

/**
 * The most characters that all instructions can have at once, with the variables that each step
 * carries; `escape`: the sign that joins lines.
 */
export function grownCharacters(lines: readonly string[], escape: string): number {
  const sizes = new Map<string, number>();
  let carried = 0;
  let total = 0;
  for (const line of joined(lines, escape)) {
    const [, , instruction = "", rest = ""] = /^\s*(ONBUILD\s+)*(\w+)\s(.*)$/is.exec(line) ?? [];
    // The shell puts variables into commands, and each step carries them.
    if (/^(?:RUN|CMD|ENTRYPOINT)$/i.test(instruction)) {
      total += line.length + carried;
      continue;
    }
    const size = grown(line, sizes);
    total += size;
    if (!/^(?:ARG|ENV)$/i.test(instruction)) continue;
    const pairs = pairsIn(rest, escape).map(({ name, value }) => ({
      name,
      size: grown(value, sizes),
    }));
    // What is not understood counts for each.
    const others = size - pairs.reduce((sum, pair) => sum + pair.size, 0);
    for (const pair of pairs) {
      const before = sizes.get(pair.name) ?? 0;
      const after = Math.max(others + pair.size, before);
      sizes.set(pair.name, after);
      carried += after - before;
    }
  }
  return total;
}

function grown(text: string, sizes: ReadonlyMap<string, number>): number {
  const named = [...text.matchAll(reference)].map(
    ([, name = ""]) => sizes.get(name) ?? unknownCharacters,
  );
  const plain = named.reduce((sum, size) => sum + size, text.length);
  return replacing.test(text) ? plain * plain : plain;
}

/** `name=value` any number of times, or the older `name value`. */
function pairsIn(
  text: string,
  escape: string,
): { readonly name: string; readonly value: string }[] {
  const sign = escape === "`" ? "`" : "\\\\";
  const word = `"(?:${sign}.|[^"${sign}])*"|'[^']*'|${sign}.|[^\\s"'${sign}]`;
  const pairs = [...text.matchAll(new RegExp(`(?<=^|\\s)(\\w+)=((?:${word})*)`, "gs"))];
  if (pairs.length > 0) return pairs.map(([, name = "", value = ""]) => ({ name, value }));
  const [, name = "", value = ""] = /^\s*(\w+)\s?(.*)$/s.exec(text) ?? [];
  return [{ name, value }];
}

/** Instructions in one line each, without comments. */
function joined(lines: readonly string[], escape: string): string[] {
  const found: string[] = [];
  let open: string | null = null;
  for (const line of lines) {
    if (/^\s*(?:#|$)/.test(line)) continue;
    const trimmed = line.trimEnd();
    const goesOn = trimmed.endsWith(escape);
    const text: string = (open ?? "") + (goesOn ? trimmed.slice(0, -1) : line);
    if (!goesOn) found.push(text);
    open = goesOn ? text : null;
  }
  return open === null ? found : [...found, open];
}
