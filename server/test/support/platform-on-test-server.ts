// Starts the whole platform like `platform-process.ts`, with its own database on the shared test
// server, for tests that do not need the embedded PostgreSQL. It starts faster: an embedded server
// is created first, and is durable.
import type { TestContext } from "node:test";
import { emptyDatabase } from "./database.ts";
import { startPlatform, type PlatformProcess } from "./platform-process.ts";
import { templateName } from "./test-server.ts";

/** Like `startPlatform`; the database is dropped after it. */
export async function startPlatformOnTestServer(
  t: TestContext,
  settings: Record<string, string> = {},
  other: { readonly socket?: number } = {},
): Promise<PlatformProcess> {
  const url = await emptyDatabase(t, { template: templateName });
  return await startPlatform(t, { ...settings, SLIPWAY_DATABASE_URL: url.reveal() }, other);
}
