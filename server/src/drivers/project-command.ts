// Composes the uv command that installs the packages that `pyproject.toml` names, for the builders
// and for `slipway dev`. Pure.
import type { PythonProject } from "./builder.ts";

/** Why the packages of a project cannot be installed. */
export const noUv =
  "The packages of pyproject.toml are installed by uv, which is not on the build machine and cannot be installed there. Ask the operator to install it, or list the packages in a requirements.txt.";

/**
 * Returns the command that installs the packages of `pyproject.toml` in the environment of
 * `python`. It has to run in the app's folder. With `uv.lock`, it installs exactly the locked
 * versions.
 */
export function projectCommand(
  { isLocked, groups, extras }: PythonProject,
  { uv, python }: { readonly uv: string; readonly python: string },
): [string, ...string[]] {
  const options = [
    ...groups.map((name) => `--group=${name}`),
    ...extras.map((name) => `--extra=${name}`),
    "--no-progress",
    "--compile-bytecode",
    "--link-mode=copy",
    "--no-python-downloads",
    `--python=${python}`,
  ];
  if (!isLocked) return [uv, "pip", "install", ...options, "-r", "pyproject.toml"];
  // `--inexact` keeps other packages of the environment. The app itself is not installed, and no
  // group that is not given.
  return [
    uv,
    "sync",
    "--frozen",
    "--inexact",
    "--no-install-project",
    "--no-default-groups",
    ...options,
  ];
}
