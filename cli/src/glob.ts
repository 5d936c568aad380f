// Patterns of `include` and `exclude` in an app's TOML file. A pattern matches a whole path
// relative to the folder: `*` and `?` within a name, `**` any number of folders, `[a-z]` and
// `{a,b}`. The time for a path grows with its length times that of the pattern: a folder may be a
// stranger's, and regular expressions can be made to take forever.

/** The most characters of a pattern. */
export const patternMax = 1000;

/** A state of the automaton that matches a pattern; `takes` null: it takes no character. */
type State = { readonly takes: ((char: string) => boolean) | null; readonly next: State[] };

/** A test of relative paths with `/`; null when the pattern is not valid. */
export function globTest(pattern: string): ((path: string) => boolean) | null {
  const written = pattern.replace(/^(?:\.?\/)+/, "");
  const automaton =
    pattern.length > patternMax
      ? null
      : automatonOf(written.endsWith("/") ? `${written}**` : written);
  if (automaton === null) return null;
  const { begin, end } = automaton;
  return (path) => {
    let at = reached([begin]);
    for (const char of path) {
      if (at.size === 0) return false;
      at = reached([...at].flatMap((state) => (state.takes?.(char) === true ? state.next : [])));
    }
    return at.has(end);
  };
}

/** The states that are reached from these without a character. */
function reached(from: readonly State[]): Set<State> {
  const found = new Set(from);
  for (const state of found)
    if (state.takes === null) for (const next of state.next) found.add(next);
  return found;
}

/** One token of a pattern at a time. */
const token = /\*\*\/|\/\*\*$|\*\*|\*|\?|\[([!^]?)((?:\\.|[^\]\\])+)\]|\\(.)|[{},[\]]|./gsu;
const isAny = (): boolean => true;
const isOfName = (char: string): boolean => char !== "/";

function automatonOf(pattern: string): { readonly begin: State; readonly end: State } | null {
  const begin: State = { takes: null, next: [] };
  let end = begin;
  const add = (takes: State["takes"]): State => {
    const state: State = { takes, next: [] };
    end.next.push(state);
    end = state;
    return state;
  };
  const addMany = (takes: (char: string) => boolean): void => {
    const many = add(null);
    many.next.push({ takes, next: [many] });
  };
  /** What `write` adds may be left out. */
  const addOptional = (write: () => void): void => {
    const before = add(null);
    write();
    before.next.push(add(null));
  };
  const open: { readonly before: State; readonly ends: State[] }[] = [];
  for (const [text, not = "", set, escaped] of pattern.matchAll(token)) {
    const choice = open.at(-1);
    if (text === "[" || (text === "\\" && escaped === undefined)) return null;
    if (set !== undefined) {
      const isInSet = setTest(not, set);
      if (isInSet === null) return null;
      add(isInSet);
    } else if (text === "*") addMany(isOfName);
    else if (text === "**") addMany(isAny);
    else if (text === "**/") addOptional(() => (addMany(isAny), add((char) => char === "/")));
    else if (text === "/**") addOptional(() => (add((char) => char === "/"), addMany(isAny)));
    else if (text === "?") add(isOfName);
    else if (text === "{") open.push({ before: add(null), ends: [] });
    else if (text === "," && choice !== undefined) {
      choice.ends.push(end);
      end = choice.before;
    } else if (text === "}") {
      if (choice === undefined) return null;
      open.pop();
      const after = add(null);
      for (const one of choice.ends) one.next.push(after);
    } else add((char) => char === (escaped ?? text));
  }
  return open.length === 0 ? { begin, end: add(null) } : null;
}

/** Null: such as a range in the wrong order. */
function setTest(not: string, set: string): ((char: string) => boolean) | null {
  try {
    const expression = new RegExp(
      `^[${not === "" ? "" : "^"}${set.replaceAll(/[[^&~]/g, "\\$&")}]$`,
      "su",
    );
    return (char) => char !== "/" && expression.test(char);
  } catch {
    // The caller names the pattern.
    return null;
  }
}
