// Decides what a change of an app's settings means, as a pure function: which fields change, what
// the settings become, and what the change requires: nothing, a release with other settings, or a
// build.
import { isDeepStrictEqual } from "node:util";
import { allowedText } from "@slipway/contract/field.ts";
import { appFields, fieldNames, type FieldName } from "@slipway/contract/app-fields.ts";
import { settingNames, type SettingName } from "@slipway/contract/app-settings.ts";
import { Fault } from "#lib/fault.ts";
import { withoutNulls, type ChangeRequest } from "./create-request.ts";
import { shown } from "./refusal.ts";
import {
  resolveFiles,
  resolveSettings,
  type ReleaseSettings,
  type ResolvedSettings,
} from "./settings.ts";

/**
 * What a change requires. `live`: nothing, since it takes effect at once; `replica`: a release with
 * other settings for new replicas; `build`: a build. Null: nothing changes.
 */
export type Need = "live" | "replica" | "build" | null;

export type ChangeInput = {
  readonly name: string;
  /** The fields that the API has set so far. */
  readonly request: Readonly<Record<string, unknown>>;
  /** The text before the change; null: the API has set none. */
  readonly configToml: string | null;
  /** The stored registry credentials, which are not opened; null: there are none. */
  readonly dockerAuthSealed: string | null;
  readonly change: ChangeRequest;
  /** The release that is being rolled out, or else the live one; null: none takes calls yet. */
  readonly release: ReleaseSettings | null;
  /**
   * True while a build is under way. Such a build uses the settings that the app had when the build
   * began, not the changed ones.
   */
  readonly isBuilding: boolean;
  readonly providers: readonly string[];
};

export type DecidedChange = {
  readonly need: Need;
  readonly changed: readonly FieldName[];
  /** The fields that the API has set after the change. */
  readonly request: Readonly<Record<string, unknown>>;
  /** The text after the change; null: none. */
  readonly configToml: string | null;
  /** The settings for a new release of the same artifact; null: the app has no release. */
  readonly next: ReleaseSettings | null;
};

/**
 * Decides a change. Throws `Fault("malformed")` when nothing is to be changed, `Fault("invalid")`
 * for a value that is not allowed.
 */
export function decideChange(input: ChangeInput): DecidedChange {
  const { change, configToml: before, release } = input;
  const { fields, configToml = before, dockerAuth } = change;
  // A change always has `fields`; its other members are absent unless they are to be changed.
  if (Object.keys(change).length === 1 && Object.keys(fields).length === 0) {
    throw new Fault(
      "malformed",
      "The body has no fields, but must have those that are to be changed.",
    );
  }
  checkFixed(input);
  // The request gets the name, which may have been only in a config_toml that this change removes.
  const request = withoutNulls({ ...input.request, ...fields, name: input.name });
  const changedFields = fieldNames.filter(
    (name) => name !== "name" && !isDeepStrictEqual(request[name], input.request[name]),
  );
  // Encrypted credentials cannot be compared, so new ones count as changed.
  const isNewAuth = dockerAuth !== undefined && dockerAuth !== null;
  const isAuthRemoved = dockerAuth === null && input.dockerAuthSealed !== null;
  const changed: FieldName[] = [...changedFields];
  if (configToml !== before) changed.push("config_toml");
  if (isNewAuth || isAuthRemoved) changed.push("dockerAuth");
  const desired = desiredSettings(input, { request, configToml });
  const next = release === null ? null : settingsOfRelease(release, desired);
  return { need: needOf(changed, { ...input, desired }), changed, request, configToml, next };
}

/**
 * The settings of a new release with the artifact of another one: settings that need a build stay
 * as they were for that build.
 */
export function settingsOfRelease(
  release: ReleaseSettings,
  desired: Pick<ResolvedSettings, "settings" | "origins">,
): ReleaseSettings {
  const changing = settingNames.filter((name) => !requires(name, "build"));
  const settings = Object.fromEntries(changing.map((name) => [name, desired.settings[name]]));
  const origins = Object.fromEntries(changing.map((name) => [name, desired.origins[name]]));
  // A setting that needs no build gets the new value and its origin; the others keep theirs. Where
  // the release has no origin for a setting, the new origin stays.
  return {
    settings: { ...release.settings, ...settings },
    origins: { ...desired.origins, ...release.origins, ...origins },
    files: release.files,
  };
}

/**
 * The allowed providers and the app's own: a provider that the configuration no longer has must not
 * prevent changes of other fields.
 */
export function knownProviders(
  providers: readonly string[],
  request: Readonly<Record<string, unknown>>,
): string[] {
  const provider = request["provider"];
  return [...providers, ...(typeof provider === "string" ? [provider] : [])];
}

/** Throws `Fault("invalid")` for a new name, and for a change that removes the repository. */
function checkFixed({ name, change: { fields } }: ChangeInput): void {
  const newName = fields["name"];
  if (newName !== undefined && newName !== name) {
    throw new Fault(
      "invalid",
      `name is ${shown(newName)}, but the name of an app cannot be changed: it must be ${shown(name)}, or be left out.`,
    );
  }
  if (fields["gitRepo"] !== null) return;
  throw new Fault(
    "invalid",
    `gitRepo is null, but an app keeps a repository: it must be ${allowedText(appFields.gitRepo)}, or be left out.`,
  );
}

/**
 * The settings that the app is to have. When a build must still read the files, only the settings
 * that are known without them are checked.
 */
function desiredSettings(
  { release, configToml: before, ...input }: ChangeInput,
  { request, configToml }: Pick<DecidedChange, "request" | "configToml">,
): Omit<ResolvedSettings, "files"> {
  const providers = knownProviders(input.providers, input.request);
  return release === null || configToml !== before
    ? resolveSettings({ body: request, configToml, providers })
    : resolveFiles({ body: request, files: release.files, isComplete: true, providers });
}

function needOf(
  changed: readonly FieldName[],
  {
    release,
    desired,
    isBuilding,
  }: ChangeInput & { readonly desired: Pick<ResolvedSettings, "settings"> },
): Need {
  if (changed.length === 0) return null;
  const isChanged = (kind: "replica" | "build"): boolean =>
    changed.some((name) => requires(name, kind));
  // Without a release, a build uses the changed settings, whatever they would need otherwise.
  if (release === null) {
    const isOnlyLive = !isChanged("build") && !isChanged("replica");
    return isOnlyLive ? "live" : "build";
  }
  // The same value from another source starts nothing.
  const differs = (kind: "replica" | "build"): boolean =>
    settingNames.some(
      (name) =>
        requires(name, kind) && !isDeepStrictEqual(desired.settings[name], release.settings[name]),
    );
  // `settings` does not show all that config_toml and dockerAuth change.
  const isHidden = changed.includes("config_toml") || changed.includes("dockerAuth");
  // A build under way uses the settings of its start. Even if the release has the desired values,
  // that build may have others.
  const mayDiffer = (kind: "replica" | "build"): boolean => isBuilding || differs(kind);
  if (isChanged("build") && (isHidden || mayDiffer("build"))) return "build";
  if (isChanged("replica") && mayDiffer("replica")) return "replica";
  return "live";
}

function requires(name: FieldName | SettingName, kind: Need): boolean {
  return appFields[name].change === kind;
}
