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
  /** Why a build would refuse it; null: it would not. */
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

/** Never throws for what is in the file. */
export function checkToml(
  repositoryToml: { readonly name: string; readonly text: string },
  providers: readonly string[],
): CheckedToml {
  const read = tried(() => readFiles({ configToml: null, repositoryToml }));
  if (!read.ok) return { settings: [], warnings: [], problem: read.problem };
  const { files, warnings } = read.value;
  const resolved = (some: FileSettings, isComplete: boolean) =>
    tried(() =>
      resolveFiles({
        body: "name" in some ? {} : { name: "app" },
        files: some,
        isComplete,
        providers,
      }),
    );
  const settings = Object.entries(files).map(([name, file]) => {
    const one = resolved(withWhatItNeeds(name, files), false);
    return { name, value: file.value, problem: one.ok ? null : one.problem };
  });
  const whole = resolved(files, true);
  const isSaid = whole.ok || settings.some(({ problem }) => problem === whole.problem);
  const all = whole.ok ? [...warnings, ...whole.value.warnings] : warnings;
  return { settings, warnings: all, problem: isSaid ? null : whole.problem };
}

/** A setting alone; runtime custom is none without what starts it. */
function withWhatItNeeds(name: string, files: FileSettings): FileSettings {
  const names = name === "runtime" ? ["runtime", "entrypoint", "dockerfilePath"] : [name];
  return Object.fromEntries(Object.entries(files).filter(([one]) => names.includes(one)));
}

type Tried<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problem: string };

function tried<T>(work: () => T): Tried<T> {
  try {
    return { ok: true, value: work() };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { ok: false, problem: error.message };
  }
}
