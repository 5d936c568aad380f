// Settings of apps for tests: the defaults of the interface, but a small single replica, plus
// changes.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import { withDefaults } from "#apps/settings.ts";

const defaults = withDefaults({
  name: "example",
  gitRepo: "owner/repo",
  pythonVersion: "3.12",
  cpu: 1,
  memory: 1,
  replicaConcurrency: 1,
  deploymentInitializationTimeout: 60,
});

/** The defaults with changes. */
export function settingsWith(changes: Partial<AppSettings>): AppSettings {
  return { ...defaults, ...changes };
}
