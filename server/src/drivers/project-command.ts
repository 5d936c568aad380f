// How uv installs the packages that `pyproject.toml` names. Used by the builders and by `slipway
// dev`. Pure.
import type { PythonProject } from "./builder.ts";

/** Why the packages of a project cannot be installed. */
export const noUv =
  "The packages of pyproject.toml are installed by uv, which is not on the build machine and cannot be installed there. Ask the operator to install it, or list the packages in a requirements.txt.";

/**
 * Installs what `pyproject.toml` names into the environment of `python`, in the app's folder; with
 * `uv.lock` exactly that.
 */
export function projectCommand(
  { isLocked, groups, extras }: PythonProject,
  { uv, python }: { readonly uv: string; readonly python: string },
): [string, ...string[]] {
  const chosen = [
    ...groups.map((name) => `--group=${name}`),
    ...extras.map((name) => `--extra=${name}`),
    "--no-progress",
    "--compile-bytecode",
    "--link-mode=copy",
    "--no-python-downloads",
    `--python=${python}`,
  ];
  if (!isLocked) return [uv, "pip", "install", ...chosen, "-r", "pyproject.toml"];
  return [
    uv,
    "sync",
    "--frozen",
    "--inexact",
    "--no-install-project",
    "--no-default-groups",
    ...chosen,
  ];
}
