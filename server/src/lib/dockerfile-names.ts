// Finds the Dockerfiles among the files of an app by their usual names, for the build and for
// `slipway init` and `slipway deploy`. Pure.

/**
 * Matches `Dockerfile` and `Containerfile` in upper or lower case, also with a word before or after
 * it: `Dockerfile.gpu`, `api.Dockerfile`.
 */
const form = /(?:^|\/)(?:[\w-]+\.)?(?:dockerfile|containerfile)(?:\.[\w-]+)?$/i;
/** Matches other files with such names: ignore lists, scripts, texts and templates. */
const otherFile =
  /\.(?:dockerignore|containerignore|py|js|ts|sh|md|txt|json|ya?ml|j2|tmpl|template)$/i;

/**
 * Returns the Dockerfiles among these paths: those in the fewest folders first, and among those at
 * the same depth the usual names first.
 */
export function dockerfilesAmong(paths: readonly string[]): string[] {
  return paths.filter((path) => form.test(path) && !otherFile.test(path)).toSorted(byRank);
}

function byRank(one: string, other: string): number {
  const difference = rank(one) - rank(other);
  if (difference !== 0) return difference;
  return one < other ? -1 : 1;
}

function rank(path: string): number {
  const depth = path.split("/").length - 1;
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  const isUsual = name === "dockerfile" || name === "containerfile";
  return depth * 2 + (isUsual ? 0 : 1);
}
