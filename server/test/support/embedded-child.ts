// A process that starts the embedded database in a folder and keeps running, for tests that kill
// it. Prints one line of JSON when the database is ready.
import { join } from "node:path";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { startEmbedded } from "#store/postgres/embedded.ts";
import { lockFolder } from "#store/folder-lock.ts";

const folder = process.argv[2] ?? "";
const lock = lockFolder(join(folder, "slipway.lock"));
const server = await startEmbedded({
  clock: systemClock,
  folder: join(folder, "postgres"),
  lock,
  connections: 10,
  log: silentLog,
});
process.stdout.write(
  `${JSON.stringify({ postgresPid: server.pid(), url: server.url.reveal() })}\n`,
);
