// The fields that are validated, stored and shown but have no effect yet, each with the reason. A test compares this table
// with the code: fields that some code uses must not be listed here, and all others must.
import type { FieldName } from "./app-fields.ts";

/** Field → why it has no effect yet. */
export const fieldsWithoutEffect = {
  baseImage: "The process driver runs apps directly on the machine; drivers that build images will use it.",
  cliVersion: "It identifies the client that sent the request, and is stored with the app.",
  computeTier: "A single machine reclaims nothing; each replica's row records the tier it was started with.",
  containerRuntime: "The process driver has only one kind of sandbox.",
  dockerAuth: "The process driver does not pull images; the credentials are stored, encrypted, for drivers that do.",
  gpuCount: "The process driver does not assign individual GPUs; each replica's row records how many were requested.",
  provider: "Until pools are configured, this machine represents every provider.",
  region: "Until pools are configured, this machine represents every region.",
} as const satisfies Partial<Record<FieldName, string>>;
