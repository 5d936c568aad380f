// Chooses one of the Pythons of this machine. Pure; `python-find.ts` finds them.

/** An interpreter that was started successfully. */
export type Python = {
  /** The program itself, with links and shims resolved. */
  readonly path: string;
  /** The version, for example `3.11`. */
  readonly version: string;
  readonly patch: number;
  /** Whether it can create virtual environments. */
  readonly hasVenv: boolean;
  /** Whether it can install pip in a virtual environment. */
  readonly hasPip: boolean;
};

export type PythonChoice =
  | { readonly ok: true; readonly python: Python; readonly warning: string | null }
  | { readonly ok: false; readonly reason: string };

/** The lowest supported version of Python 3, which the runtime inside apps needs. */
const minorMin = 8;
/** What pip adds to the weight of an interpreter: more than any patch number. */
const pipWeight = 1000;

/**
 * Chooses the Python for a version such as `3.11`. If the app asked for the version (`isGiven`), no
 * other one is chosen. A default version that is missing is replaced by the nearest newer one, else
 * by the newest installed one.
 */
export function choosePython(wish: {
  readonly version: string;
  readonly isGiven: boolean;
  readonly installed: readonly Python[];
  readonly needsPip: boolean;
}): PythonChoice {
  const usable = wish.installed.filter(
    (python) => python.hasVenv && minorOf(python.version) >= minorMin,
  );
  const wanted = best(usable, wish.version, wish.needsPip);
  if (wanted !== undefined) return { ok: true, python: wanted, warning: null };
  const versions = [...new Set(usable.map((python) => python.version))].sort(
    (a, b) => minorOf(a) - minorOf(b),
  );
  if (versions.length === 0) {
    return {
      ok: false,
      reason: `No usable Python is installed on the build machine (3.${minorMin} or newer, with the venv module); the operator has to install one.`,
    };
  }
  if (wish.isGiven) {
    return {
      ok: false,
      reason: `Python ${wish.version} is not installed on the build machine; installed: ${versions.join(", ")}. Set pythonVersion to one of them, or ask the operator to install ${wish.version}.`,
    };
  }
  // `versions` is not empty, so a Python is found from here on: `""` and `undefined` only satisfy
  // the compiler.
  const newer = versions.find((version) => minorOf(version) > minorOf(wish.version));
  const nearest = newer ?? versions.at(-1) ?? "";
  const instead = best(usable, nearest, wish.needsPip);
  if (instead === undefined)
    return { ok: false, reason: `Python ${wish.version} is not installed.` };
  return {
    ok: true,
    python: instead,
    warning: `Python ${wish.version}, the default, is not installed here: ${nearest} is used. Set pythonVersion to choose.`,
  };
}

/**
 * The best interpreter of a version: one with pip if it is needed, then the newest, then the first
 * found.
 */
function best(
  installed: readonly Python[],
  version: string,
  needsPip: boolean,
): Python | undefined {
  const candidates = installed.filter((python) => python.version === version);
  const weight = (python: Python): number =>
    needsPip && python.hasPip ? pipWeight + python.patch : python.patch;
  let chosen: Python | undefined;
  for (const python of candidates) {
    if (chosen === undefined || weight(python) > weight(chosen)) chosen = python;
  }
  return chosen;
}

function minorOf(version: string): number {
  return Number(version.split(".")[1] ?? 0);
}
