// The fields of a deployment by upload. Clients of this interface send the settings of the app's
// TOML file as fields and the file itself beside them.
import { appFields } from "./app-fields.ts";
import type { Field } from "./field.ts";

const {
  gitRepo: _repository,
  gitBranch: _branch,
  gitPath: _path,
  gitAutoDeploy: _pushes,
  ...others
} = appFields;
const { gitSubmodules: _submodules, gitLfs: _lfs, ...settings } = others;

const noEffect = "For clients; has no effect here.";
const patterns = {
  kind: "list",
  toml: null,
  lengthMin: 0,
  lengthMax: 10_000,
  isUnique: false,
  default: null,
} as const;
const commands = { ...patterns, lengthMax: 1000, isSingleAllowed: false } as const;

/** The fields of an upload besides the app's settings. */
export const uploadOnly = {
  cerebrium_toml: {
    ...settings.config_toml,
    about:
      "The app's TOML configuration file, verbatim. A field of the same value counts as set by this file.",
  },
  include: {
    ...patterns,
    isSingleAllowed: true,
    about: `Which files the client packs. ${noEffect}`,
  },
  exclude: {
    ...patterns,
    isSingleAllowed: true,
    about: `Which files the client leaves out. ${noEffect}`,
  },
  shellCommands: {
    ...commands,
    about: "Must be the shell_commands of cerebrium_toml, which count.",
  },
  preBuildCommands: {
    ...commands,
    about: "Must be the pre_build_commands of cerebrium_toml, which count.",
  },
  disableBuildLogs: {
    kind: "boolean",
    toml: null,
    default: false,
    about: `Whether the client shows the build's log. ${noEffect}`,
  },
} as const satisfies Record<string, Field>;

/** All fields of a deployment by upload. */
export const uploadFields = { ...settings, ...uploadOnly } as const;
