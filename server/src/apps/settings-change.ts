// Decides what a change of an app's settings means, as a pure function: which fields change, what
// the settings become, and what that takes: nothing, a release with other settings, or a build.
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

/** What a change takes. `live`: nothing; null: nothing changes. */
export type Need = "live" | "replica" | "build" | null;

export type ChangeInput = {
  readonly name: string;
  /** What the API has set so far. */
  readonly request: Readonly<Record<string, unknown>>;
  readonly configToml: string | null;
  readonly dockerAuthSealed: string | null;
  readonly change: ChangeRequest;
  /** The release that takes the calls; null: none does yet. */
  readonly release: ReleaseSettings | null;
  /** A build that is under way has the settings of its start. */
  readonly isBuilding: boolean;
  readonly providers: readonly string[];
};

export type DecidedChange = {
  readonly need: Need;
  readonly changed: readonly FieldName[];
  /** What the API has set from now on. */
  readonly request: Readonly<Record<string, unknown>>;
  readonly configToml: string | null;
  /** What a release of the same artifact gets; null without a release. */
  readonly next: ReleaseSettings | null;
};

/**
 * Throws `Fault("malformed")` when nothing is to be changed, `Fault("invalid")` for what is not
 * allowed.
 */
export function decideChange(input: ChangeInput): DecidedChange {
  const { change, configToml: before, release } = input;
  const { fields, configToml = before, dockerAuth } = change;
  if (Object.keys(change).length === 1 && Object.keys(fields).length === 0) {
    throw new Fault(
      "malformed",
      "The body has no fields, but must have those that are to be changed.",
    );
  }
  checkFixed(input);
  // The name may have been in a config_toml that goes.
  const request = withoutNulls({ ...input.request, ...fields, name: input.name });
  const others = fieldNames.filter(
    (name) => name !== "name" && !isDeepStrictEqual(request[name], input.request[name]),
  );
  // What is encrypted cannot be compared.
  const isAuthChanged =
    dockerAuth !== undefined && (dockerAuth !== null || input.dockerAuthSealed !== null);
  const changed = [
    ...others,
    ...(configToml === before ? [] : (["config_toml"] as const)),
    ...(isAuthChanged ? (["dockerAuth"] as const) : []),
  ];
  const desired = desiredSettings(input, { request, configToml });
  const next = release === null ? null : settingsOfRelease(release, desired);
  return { need: needOf(changed, { ...input, desired }), changed, request, configToml, next };
}

/**
 * The settings of a new release with the artifact of another one: what its build has decided stays.
 */
export function settingsOfRelease(
  release: ReleaseSettings,
  desired: Pick<ResolvedSettings, "settings" | "origins">,
): ReleaseSettings {
  const changing = settingNames.filter((name) => !isOf(name, "build"));
  const settings = Object.fromEntries(changing.map((name) => [name, desired.settings[name]]));
  const origins = Object.fromEntries(changing.map((name) => [name, desired.origins[name]]));
  return {
    settings: { ...release.settings, ...settings },
    origins: { ...desired.origins, ...release.origins, ...origins },
    files: release.files,
  };
}

/**
 * A provider that the configuration no longer has does not keep other fields from being changed.
 */
export function knownProviders(
  providers: readonly string[],
  request: Readonly<Record<string, unknown>>,
): string[] {
  const provider = request["provider"];
  return [...providers, ...(typeof provider === "string" ? [provider] : [])];
}

function checkFixed({ name, change: { fields } }: ChangeInput): void {
  const given = fields["name"];
  if (given !== undefined && given !== name) {
    throw new Fault(
      "invalid",
      `name is ${shown(given)}, but the name of an app cannot be changed: it must be ${shown(name)}, or be left out.`,
    );
  }
  if (fields["gitRepo"] !== null) return;
  throw new Fault(
    "invalid",
    `gitRepo is null, but an app keeps a repository: it must be ${allowedText(appFields.gitRepo)}, or be left out.`,
  );
}

/** Without the files that a build will read, only what is known without them is checked. */
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
  const has = (kind: "replica" | "build"): boolean => changed.some((name) => isOf(name, kind));
  // The same value from another source starts nothing.
  const differs = (kind: "replica" | "build"): boolean =>
    release !== null &&
    settingNames.some(
      (name) =>
        isOf(name, kind) && !isDeepStrictEqual(desired.settings[name], release.settings[name]),
    );
  const isHidden = changed.includes("config_toml") || changed.includes("dockerAuth");
  if (release === null) return has("build") || has("replica") ? "build" : "live";
  if (has("build") && (isHidden || isBuilding || differs("build"))) return "build";
  return has("replica") && (isBuilding || differs("replica")) ? "replica" : "live";
}

function isOf(name: FieldName | SettingName, kind: Need): boolean {
  return appFields[name].change === kind;
}
