// A process that works on builds until it is killed. Tests run it with its settings as JSON in the
// first argument. Its trial never ends, so a build passes through every stage and stays in the last
// one.
import { Secret } from "#lib/secret.ts";
import { openQueue, playedTrial } from "./build-queue.ts";
import { connect } from "./connect.ts";

const given = JSON.parse(process.argv[2] ?? "{}") as {
  url: string;
  urlTemplate: string;
  folder: string;
  leaseMs: number;
};
const url = new Secret(given.url);
const db = await connect(url, 4);
await openQueue({ ...given, db, url, trial: playedTrial(() => new Promise(() => undefined)) });
process.stdout.write("working\n");
