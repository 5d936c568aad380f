// The settings of an app for its owner, pure: those in effect, where each comes from, and those
// that wait for a release.
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
  /** Settings that a release or a build still has to bring. */
  readonly pending: Partial<AppSettings>;
};

/**
 * Throws `Fault("invalid")` when nothing was built yet, and this version does not take the request.
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
  // What neither request nor config_toml has, the latest build has found in the repository.
  const found =
    latest === null
      ? []
      : Object.entries(latest).filter(([name, value]) => {
          return (
            (origins as Record<string, string>)[name] === "default" &&
            !isDeepStrictEqual(value, settings[name as keyof AppSettings])
          );
        });
  return {
    settings: { ...settings, ...Object.fromEntries(found) },
    origins: { ...origins, ...Object.fromEntries(found.map(([name]) => [name, "repository"])) },
    pending: {},
  };
}

function pendingOf(now: AppSettings, wanted: Omit<ReadLayers, "isComplete">): Partial<AppSettings> {
  try {
    const { settings } = resolveFiles({ ...wanted, isComplete: true });
    const names = settingNames.filter((name) => {
      const { change } = appFields[name];
      return (
        (change === "replica" || change === "build") &&
        !isDeepStrictEqual(settings[name], now[name])
      );
    });
    return Object.fromEntries(names.map((name) => [name, settings[name]]));
  } catch (error) {
    // They do not fit the files of this release; the next build will say so.
    if (error instanceof Fault) return {};
    throw error;
  }
}
