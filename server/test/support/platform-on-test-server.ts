// Starts the whole platform as `platform-process.ts` does, with a database of its own on the server that all tests share: for
// tests to which the embedded PostgreSQL does not matter. It is there at once; an embedded one is made first, and is durable.
import type { TestContext } from "node:test";
import { emptyDatabase } from "./database.ts";
import { startPlatform, type PlatformProcess } from "./platform-process.ts";
import { templateName } from "./test-server.ts";

/** As `startPlatform`; its database goes after it. */
export async function startPlatformOnTestServer(
  t: TestContext,
  settings: Record<string, string> = {},
): Promise<PlatformProcess> {
  const url = await emptyDatabase(t, { template: templateName });
  return await startPlatform(t, { ...settings, SLIPWAY_DATABASE_URL: url.reveal() });
}
