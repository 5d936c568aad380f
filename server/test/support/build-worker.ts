// A process that works on builds until it is killed. Tests run it with its settings as JSON in the
// first argument. Its trial never ends, so a build passes through every stage and stays in the last
// one.
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import { openDatabase } from "#store/database.ts";
import { openQueue, playedTrial } from "./build-queue.ts";

const given = JSON.parse(process.argv[2] ?? "{}") as {
  url: string;
  urlTemplate: string;
  folder: string;
  leaseMs: number;
};
const url = new Secret(given.url);
const db = await openDatabase({ clock: systemClock, url, connections: 4, log: silentLog });
await openQueue({ ...given, db, url, trial: playedTrial(() => new Promise(() => undefined)) });
process.stdout.write("working\n");
