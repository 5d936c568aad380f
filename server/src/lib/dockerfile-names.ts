// Finds the Dockerfiles among the files of an app by their usual names, for the build and for
// `slipway init` and `slipway deploy`. Pure.

/**
 * `Dockerfile` and `Containerfile` in any case, with something before or behind: `Dockerfile.gpu`,
 * `api.Dockerfile`.
 */
const form = /(?:^|\/)(?:[\w-]+\.)?(?:dockerfile|containerfile)(?:\.[\w-]+)?$/i;
/** What BuildKit leaves out, for one Dockerfile; and a program that writes one. */
const another =
  /\.(?:dockerignore|containerignore|py|js|ts|sh|md|txt|json|ya?ml|j2|tmpl|template)$/i;

/** The Dockerfiles among paths, the usual name first, those at the top before those in folders. */
export function dockerfilesAmong(paths: readonly string[]): string[] {
  return paths
    .filter((path) => form.test(path) && !another.test(path))
    .toSorted((one, other) => rank(one) - rank(other) || (one < other ? -1 : 1));
}

function rank(path: string): number {
  const depth = path.split("/").length - 1;
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  return depth * 2 + (name === "dockerfile" || name === "containerfile" ? 0 : 1);
}
