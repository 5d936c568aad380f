// The fields that are checked, stored and shown, but change nothing yet, each with the reason. A test compares this table with the
// code: a field that some part reads must not stand here, and one that no part reads must.
import type { FieldName } from "./app-fields.ts";

/** Field → why it has no effect yet. */
export const fieldsWithoutEffect = {
  cliVersion: "It says which client sent the request; it is kept with the app.",
  containerRuntime: "The process driver has one kind of sandbox only.",
  dockerAuth: "The process driver pulls no images; the credentials are kept, encrypted, for drivers that do.",
  gitAutoDeploy: "Pushes are not received yet; the setting is kept for the day when they are.",
  partialUpload: "An app that is linked to a repository uploads nothing.",
} as const satisfies Partial<Record<FieldName, string>>;
