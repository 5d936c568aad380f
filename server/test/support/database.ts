// A fresh, migrated database for each test, cloned from a template: `const { db, url } = await
// testDatabase(t);`. The runner in tools/ starts one server for all files and names it in
// SLIPWAY_TEST_DATABASE; a file that is run alone starts its own server.
import { randomBytes } from "node:crypto";
import { after } from "node:test";
import { Secret } from "#lib/secret.ts";
import type { Db } from "#store/database.ts";
import { cleanLast, type WithAfter } from "./clean-last.ts";
import {
  administer,
  cloneDatabase,
  databaseUrl,
  keyTemplateName,
  startTestServer,
  templateName,
  testDatabaseVariable,
  type TestServer,
} from "./test-server.ts";
import { connect } from "./connect.ts";

export type TestDatabase = {
  readonly db: Db;
  readonly url: Secret;
};

/**
 * A fresh, empty database with the current schema, optionally with a signing key (`hasKey`, see
 * `keyTemplateName`); closed and dropped after the test.
 */
export async function testDatabase(
  t: WithAfter,
  options: { readonly hasKey?: boolean } = {},
): Promise<TestDatabase> {
  const url = await emptyDatabase(t, {
    template: options.hasKey === true ? keyTemplateName : templateName,
  });
  const db = await connect(url, 10);
  cleanLast(t, () => db.destroy());
  return { db, url };
}

/**
 * The URL of a fresh database, by default without a schema; dropped after the test, even if clients
 * are still connected.
 */
export async function emptyDatabase(
  t: WithAfter,
  options: { template?: string } = {},
): Promise<Secret> {
  const server = await serverUrl();
  const name = `test_${process.pid}_${randomBytes(6).toString("hex")}`;
  const url = await cloneDatabase(server, { name, template: options.template ?? "template1" });
  cleanLast(t, () => administer(server, `drop database if exists ${name} with (force)`));
  return new Secret(url);
}

let ownServer: Promise<TestServer> | undefined;

after(async () => {
  const server = await ownServer;
  await server?.stop();
});

async function serverUrl(): Promise<string> {
  const given = process.env[testDatabaseVariable];
  if (given !== undefined && given !== "") return databaseUrl(given, "postgres");
  ownServer ??= startTestServer();
  return databaseUrl((await ownServer).url, "postgres");
}
