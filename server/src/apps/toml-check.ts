// Reads the settings file of a repository for an app that does not exist yet, with the code that
// builds use, and says of each setting whether a build would take it.
import { Fault } from "#lib/fault.ts";
import { readFiles, type FileSettings } from "./file-settings.ts";
import { resolveFiles } from "./settings.ts";

/** One setting of the file, as it is written there. */
export type CheckedSetting = {
  /** A field, or one of `fileSettingNames`. */
  readonly name: string;
  readonly value: unknown;
  /** Why a build would refuse the setting; null: a build would take it. */
  readonly problem: string | null;
};

export type CheckedToml = {
  readonly settings: readonly CheckedSetting[];
  readonly warnings: readonly string[];
  /**
   * Why a build would refuse the file as a whole, or how its settings contradict each other; null:
   * neither.
   */
  readonly problem: string | null;
};

/** Checks the file. Never throws because of its content. */
export function checkToml(
  repositoryToml: { readonly name: string; readonly text: string },
  providers: readonly string[],
): CheckedToml {
  const read = attempt(() => readFiles({ configToml: null, repositoryToml }));
  if (!read.ok) return { settings: [], warnings: [], problem: read.problem };
  const { files, warnings } = read.value;
  // An app needs a name. Where the file has none, the request for the new app will bring one; here
  // any name will do.
  const resolve = (part: FileSettings, isComplete: boolean) =>
    attempt(() =>
      resolveFiles({
        body: "name" in part ? {} : { name: "app" },
        files: part,
        isComplete,
        providers,
      }),
    );
  const settings = Object.entries(files).map(([name, file]) => {
    // As the part is not complete, no rule misses the settings that are not in it.
    const result = resolve(withNeededSettings(name, files), false);
    return { name, value: file.value, problem: result.ok ? null : result.problem };
  });
  const whole = resolve(files, true);
  // What is wrong with one setting is not said again of the whole file.
  const isReported = whole.ok || settings.some(({ problem }) => problem === whole.problem);
  const allWarnings = whole.ok ? [...warnings, ...whole.value.warnings] : warnings;
  return { settings, warnings: allWarnings, problem: isReported ? null : whole.problem };
}

/**
 * The file's settings cut down to the named one. With `runtime`, the settings stay that say how a
 * custom runtime starts.
 */
function withNeededSettings(name: string, files: FileSettings): FileSettings {
  const names = name === "runtime" ? ["runtime", "entrypoint", "dockerfilePath"] : [name];
  return Object.fromEntries(Object.entries(files).filter(([fileName]) => names.includes(fileName)));
}

type Attempt<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problem: string };

function attempt<T>(work: () => T): Attempt<T> {
  try {
    return { ok: true, value: work() };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { ok: false, problem: error.message };
  }
}
