// Parses the settings that are stored with builds and releases. They are not trusted, since another
// version of the platform may have stored them. Used by every area that reads them.
import { buildAgain } from "@slipway/contract/advice.ts";
import { z } from "zod";
import { appFields } from "@slipway/contract/app-fields.ts";
import * as contract from "@slipway/contract/app-settings.ts";
import { Fault } from "#lib/fault.ts";
import { isObject } from "#lib/is-object.ts";
import { shown } from "./refusal.ts";
import { withDefaults, type GivenSettings, type ReleaseSettings } from "./settings.ts";

/**
 * The settings of a stored build or release, or why they cannot be read. Fields that newer versions
 * have added get their defaults; fields that they have removed are dropped. The limits of requests
 * are not checked, since they may have been wider when the settings were stored.
 */
export function readSettings(stored: unknown): contract.AppSettings | Fault {
  const parsed = schema.safeParse(withoutNulls(stored), { reportInput: true });
  if (parsed.success) return withDefaults(parsed.data);
  const [issue] = parsed.error.issues;
  const where =
    issue === undefined || issue.path.length === 0
      ? "the settings are"
      : `${issue.path.join(".")} is`;
  const what = `${where} ${shown(issue?.input)} (${issue?.message})`;
  return new Fault(
    "not_usable",
    `The app's stored settings cannot be read: ${what}. Please ${buildAgain}.`,
  );
}

/** Reads the stored settings of a release, like `readSettings`. Throws `Fault("not_usable")`. */
export function releaseSettings(stored: unknown): contract.AppSettings {
  const settings = readSettings(stored);
  if (settings instanceof Fault) throw settings;
  return settings;
}

/** Like `readSettings`, with the origins and the file values that a release also stores. */
export function readReleaseSettings(row: {
  readonly settings: unknown;
  readonly origins: unknown;
  readonly base_settings: unknown;
}): ReleaseSettings | Fault {
  const settings = readSettings(row.settings);
  if (settings instanceof Fault) return settings;
  return {
    settings,
    // Unknown origins of another version count as missing.
    origins: (originsSchema.safeParse(row.origins).data ?? null) as contract.SettingOrigins | null,
    files: filesSchema.safeParse(row.base_settings).data ?? {},
  };
}

/** The settings that say which pages of other origins may call the app. */
export type CorsSettings = Pick<
  contract.AppSettings,
  "corsOrigins" | "corsHeaders" | "corsCredentials"
>;

/**
 * The CORS settings of an app without a release: those of its latest build, replaced by those that
 * its request gives. Undefined: no page may call it, or the stored settings cannot be read.
 */
export function corsBeforeRelease(
  request: unknown,
  latestBuild: unknown,
): CorsSettings | undefined {
  // The request stands last, so its values replace those of the build.
  const parts = [latestBuild, request].map(
    (stored) => corsSchema.safeParse(withoutNulls(stored ?? {})).data,
  );
  const {
    corsOrigins = [],
    corsHeaders = [],
    corsCredentials = false,
  } = Object.assign({}, ...parts) as Partial<CorsSettings>;
  return corsOrigins.length === 0 ? undefined : { corsOrigins, corsHeaders, corsCredentials };
}

const corsSchema = z
  .object({
    corsOrigins: z.array(z.string()),
    corsHeaders: z.array(z.string()),
    corsCredentials: z.boolean(),
  })
  .partial();

const originsSchema = z.record(z.string(), z.enum(contract.settingOrigins));
const filesSchema = z.record(
  z.string(),
  z.object({ value: z.unknown(), path: z.string(), origin: z.enum(["config_toml", "repository"]) }),
);

/** The types of values by the kind of their field. */
const scalars = { text: z.string(), boolean: z.boolean(), number: z.number(), integer: z.int() };
const packages = z.record(z.string(), z.string());
const path = z.string().optional();

/**
 * As in `GivenSettings`, all but the name may be missing. The cast adds the types of the fields,
 * which `Object.fromEntries` does not keep.
 */
const schema = z.object({
  ...Object.fromEntries(
    contract.settingNames.map((name) => [name, storedValue(appFields[name]).optional()]),
  ),
  name: z.string(),
  preBuildCommands: z.array(z.string()).optional(),
  shellCommands: z.array(z.string()).optional(),
  dependencies: z
    .object({
      pip: packages,
      apt: packages,
      conda: packages,
      paths: z.object({ pip: path, apt: path, conda: path }),
      groups: z.array(z.string()).default([]),
    })
    .optional(),
}) as unknown as z.ZodType<GivenSettings>;

/** A schema that checks only the type of a value. */
function storedValue(field: (typeof appFields)[contract.SettingName]): z.ZodType {
  if (field.kind === "choice") return z.enum(field.choices);
  if (field.kind === "list")
    return z.array("choices" in field ? z.enum(field.choices) : z.string());
  return scalars[field.kind];
}

/** Null counts as absent, as in a request. */
function withoutNulls(stored: unknown): unknown {
  if (!isObject(stored)) return stored;
  return Object.fromEntries(Object.entries(stored).filter(([, value]) => value !== null));
}
