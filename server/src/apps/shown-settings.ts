// The settings of an app for its owner: the settings in effect, the origin of each, and the
// settings that wait for a release. Pure.
import { isDeepStrictEqual } from "node:util";
import { appFields } from "@slipway/contract/app-fields.ts";
import {
  settingNames,
  type AppSettings,
  type SettingOrigins,
} from "@slipway/contract/app-settings.ts";
import { Fault } from "#lib/fault.ts";
import { knownProviders } from "./settings-change.ts";
import {
  liveSettings,
  resolveFiles,
  resolveSettings,
  type ReadLayers,
  type ReleaseSettings,
} from "./settings.ts";

export type ShownSettings = {
  readonly settings: AppSettings;
  readonly origins: SettingOrigins;
  /** Settings that take effect with the next release or build. */
  readonly pending: Partial<AppSettings>;
};

/**
 * The settings to show. Throws `Fault("invalid")` when the app has no release yet, and this version
 * of the platform does not allow what its request has set.
 */
export function shownSettings(app: {
  readonly request: Readonly<Record<string, unknown>>;
  readonly configToml: string | null;
  /** The release that takes the calls. */
  readonly release: ReleaseSettings | null;
  /** The settings of the latest build. */
  readonly latest: AppSettings | null;
  readonly providers: readonly string[];
}): ShownSettings {
  const { request: body, configToml, release, latest } = app;
  const providers = knownProviders(app.providers, body);
  if (release !== null) {
    const now = liveSettings(release, body);
    return { ...now, pending: pendingOf(now.settings, { body, files: release.files, providers }) };
  }
  const { settings, origins } = resolveSettings({ body, configToml, providers });
  // The latest build has found values in the repository that neither request nor config_toml has.
  const isFromRepository = ([name, value]: [string, unknown]): boolean =>
    (origins as Record<string, string>)[name] === "default" &&
    !isDeepStrictEqual(value, settings[name as keyof AppSettings]);
  const repositoryValues = latest === null ? [] : Object.entries(latest).filter(isFromRepository);
  return {
    settings: { ...settings, ...Object.fromEntries(repositoryValues) },
    origins: {
      ...origins,
      ...Object.fromEntries(repositoryValues.map(([name]) => [name, "repository"])),
    },
    pending: {},
  };
}

/** The settings that the app would have with a new release or build, where they differ from now. */
function pendingOf(now: AppSettings, wanted: Omit<ReadLayers, "isComplete">): Partial<AppSettings> {
  try {
    const { settings } = resolveFiles({ ...wanted, isComplete: true });
    const names = settingNames.filter((name) => {
      const { change } = appFields[name];
      const isLive = change !== "replica" && change !== "build";
      return !isLive && !isDeepStrictEqual(settings[name], now[name]);
    });
    return Object.fromEntries(names.map((name) => [name, settings[name]]));
  } catch (error) {
    // The request does not fit the files of this release; the next build will say so.
    if (error instanceof Fault) return {};
    throw error;
  }
}
