// Many downloads from volumes at once.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, truncateSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { StorageFiles } from "#drivers/storage-files.ts";
import { startManagementApi } from "#test/support/management-api.ts";

/** At once and waiting, of one project. */
const [projectMax, waitingMax] = [32, 256];

test("downloads that wait for others to end have no file open", async (t) => {
  const api = await startManagementApi(t);
  const folder = join(api.storageDir, api.projectId);
  mkdirSync(folder);
  writeFileSync(join(folder, "f"), "");
  // More than sockets take while nobody reads them.
  truncateSync(join(folder, "f"), 50_000_000);
  const path = `/v2/projects/${api.projectId}/volumes/default/download?region=x&file_path=f`;
  const { pathname } = new URL((await api.call("GET", path)).body.url);
  const opened = t.mock.method(StorageFiles.prototype, "open");
  const { port, hostname } = new URL(api.baseUrl);
  const refused = Promise.race(
    Array.from({ length: projectMax + waitingMax + 1 }, async () => {
      const client = connect(Number(port), hostname);
      t.after(() => client.destroy());
      client.write(`GET ${pathname} HTTP/1.1\r\nhost: a\r\n\r\n`);
      const [head] = (await once(client, "data")) as [Buffer];
      client.pause();
      return await (head.toString("latin1").startsWith("HTTP/1.1 429")
        ? head.length
        : new Promise<never>(() => undefined));
    }),
  );
  assert.ok((await refused) > 0);
  assert.equal(opened.mock.callCount(), projectMax);
});
