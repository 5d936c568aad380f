// The fields that are checked, stored and shown, but change nothing yet, each with the reason. A test compares this table with the
// code: a field that some part acts on must not stand here, and one that no part acts on must.
import type { FieldName } from "./app-fields.ts";

/** Field → why it has no effect yet. */
export const fieldsWithoutEffect = {
  baseImage: "The process driver runs apps on the machine itself; drivers that build images will use it.",
  cliVersion: "It says which client sent the request; it is kept with the app.",
  computeTier: "One machine reclaims nothing; each replica's row says which tier it was started with.",
  containerRuntime: "The process driver has one kind of sandbox only.",
  dockerAuth: "The process driver pulls no images; the credentials are kept, encrypted, for drivers that do.",
  gitAutoDeploy: "Pushes are not received yet; the setting is kept for the day when they are.",
  gpuCount: "The process driver does not deal out single GPUs; each replica's row says how many were asked for.",
  logLevel: "Build logs hold everything, whatever the level.",
  partialUpload: "An app that is linked to a repository uploads nothing.",
  provider: "Until pools are configured, this machine stands for every provider.",
  region: "Until pools are configured, this machine stands for every region.",
  rollOutDurationSeconds: "All traffic moves to a new release at once.",
} as const satisfies Partial<Record<FieldName, string>>;
