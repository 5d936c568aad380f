// Many downloads from volumes at once.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, truncateSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { sendBytes } from "#api/file-answer.ts";
import { StorageFiles } from "#drivers/storage-files.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startManagementApi } from "#test/support/management-api.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";

/** At once and waiting, of one project. */
const projectMax = 32;
const waitingMax = 256;

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

test("a client that was gone while it waited leaves no timer behind", async (t) => {
  const path = join(temporaryFolder(t, "gone"), "f");
  writeFileSync(path, "");
  truncateSync(path, 50_000_000);
  const file = await open(path);
  t.after(() => file.close());
  const server = createServer().listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  const [request, response] = (await once(server, "request")) as [unknown, ServerResponse];
  client.destroy();
  await once(response, "close");
  const timers = new Set<() => void>();
  class CountingClock extends VirtualClock {
    override after(ms: number, run: () => void): () => void {
      timers.add(run);
      const cancel = super.after(ms, run);
      return () => {
        timers.delete(run);
        cancel();
      };
    }
  }
  const reply = { hijack: () => undefined, getHeaders: () => ({}), raw: response };
  const given = {
    file,
    first: 0,
    last: 49_999_999,
    clock: new CountingClock(),
    stopping: t.signal,
  };
  await sendBytes({ request, reply } as never, 200, given);
  assert.equal(timers.size, 0);
});
