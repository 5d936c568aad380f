// How much a backlog of a million runs of another app slows down accepting: two platforms on the
// same PostgreSQL, one with the backlog and one without, take turns. The other app works on one run
// at a time, which never ends.
import type { Client } from "pg";
import { alternate } from "#bench/harness/rounds.ts";
import { measureAccept, type Accepted } from "./accept-and-finish.ts";
import { deployOurApp, startOurPlatform, type OurContender } from "./our-contender.ts";
import type { Rounds, Scene } from "./scene.ts";

/** The names of the measurements. */
export const backlogKinds = {
  empty: "no backlog",
  full: "a million waiting runs of another app",
} as const;

const backlogRuns = 1_000_000;
/** The batch size of one statement, which must finish within the platform's own deadlines. */
const insertAtOnce = 100_000;

/** Runs all rounds. */
export async function acceptWithBacklog(scene: Scene): Promise<Rounds<Accepted>> {
  const { t, server, options, print } = scene;
  const unloaded = await startOurPlatform(t, server, "no_backlog");
  const empty = await deployOurApp(unloaded, "bench-custom", backlogKinds.empty);
  const loaded = await startOurPlatform(t, server, "backlog");
  const full = await deployOurApp(loaded, "bench-custom", backlogKinds.full);
  const busy = await deployOurApp(loaded, "bench-busy", "busy");
  print(`writing ${backlogRuns} runs of another app`);
  await insertBacklog(loaded.database, {
    projectId: loaded.platform.bootstrap.projectId,
    appId: busy.app.appId,
  });
  const accept = async (contender: OurContender): Promise<Accepted> => {
    const accepted = await measureAccept(contender, scene);
    await contender.settled();
    return accepted;
  };
  return await alternate(
    { [backlogKinds.empty]: () => accept(empty), [backlogKinds.full]: () => accept(full) },
    {
      rounds: options.rounds,
      print,
      show: ({ callsPerSecond, p99Ms }) =>
        `${callsPerSecond.toFixed(0)} accepted/s, p99 ${p99Ms.toFixed(1)} ms`,
    },
  );
}

/** Rows as accepting writes them, for runs that wait forever. */
async function insertBacklog(
  database: Client,
  { projectId, appId }: { readonly projectId: string; readonly appId: string },
): Promise<void> {
  for (let count = 0; count < backlogRuns; count += insertAtOnce) {
    await database.query(
      `with made as (
         insert into runs (id, project_id, app_id, release_id, state, method, path, client_address, retries_max)
         select uuidv7(), $1, $2, releases.id, 'pending', 'POST', '/run', '127.0.0.1', 0
           from generate_series(1, $3), (select id from releases where app_id = $2 limit 1) as releases
         returning id
       )
       insert into run_requests (run_id, target, lines, body)
       select id, '/run', E'Content-Type: application/json\\r\\n', convert_to('{"open_at": 1e12}', 'UTF8') from made`,
      [projectId, appId, insertAtOnce],
    );
  }
  await database.query("vacuum analyze runs, run_requests");
  await database.query("checkpoint");
}
