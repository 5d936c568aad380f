// How much a backlog of a million runs of another app slows down accepting: two platforms on the
// same PostgreSQL, one with the backlog and one without, take turns. The other app works on one run
// at a time, which never ends.
import type { Client } from "pg";
import {
  Gathered,
  measureAccept,
  type Accepted,
  type Rounds,
  type Scene,
} from "./accept-and-finish.ts";
import { openPlatform, type Stage } from "./stage.ts";

/** The names of the measurements. */
export const backlogKinds = {
  empty: "no backlog",
  full: "a million waiting runs of another app",
} as const;

const backlogRuns = 1_000_000;
/** The batch size of one statement, which must finish within the platform's own deadlines. */
const insertAtOnce = 100_000;

/** Runs all rounds. */
export async function backlog(stage: Stage, scene: Scene): Promise<Rounds<Accepted>> {
  const empty = await (
    await openPlatform(stage, scene.server, "no_backlog")
  ).app("bench-custom", backlogKinds.empty);
  const loaded = await openPlatform(stage, scene.server, "backlog");
  const full = await loaded.app("bench-custom", backlogKinds.full);
  const busy = await loaded.app("bench-busy", "busy");
  scene.print(`writing ${backlogRuns} runs of another app`);
  await insertBacklog(loaded.database, {
    projectId: loaded.platform.bootstrap.projectId,
    appId: busy.app.appId,
  });
  const gathered = new Gathered<Accepted>(scene.print);
  for (let round = 0; round <= scene.options.rounds; round++) {
    for (const [name, contender] of [
      [backlogKinds.empty, empty],
      [backlogKinds.full, full],
    ] as const) {
      const one = await measureAccept(contender, scene);
      await contender.settled();
      // The first round warms up: node compiles hot code.
      if (round > 0)
        gathered.add(
          name,
          one,
          `${Math.round(one.callsPerSecond)} accepted/s, p99 ${one.p99Ms.toFixed(1)} ms`,
        );
    }
  }
  return gathered.rounds;
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
