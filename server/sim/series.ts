// Runs seeds that nobody has tried: `node server/sim/series.ts runs|scheduler <count> [first]`, in
// one process for each core. Each world has 60 to 600 events. Seeds that break a promise are
// printed with the command that repeats them.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { drawnOf, kindOf, unseenSeed, type Drawn } from "#test/support/drawn-seed.ts";
import { withSimDatabase } from "./runs/own-database.ts";
import { runWorld as runRuns } from "./runs/world.ts";
import { runWorld as runScheduler } from "./scheduler/world.ts";
import { errorMessage } from "#lib/error-message.ts";

type Run = (drawn: Drawn) => Promise<unknown>;

const [name = "", count = "1000", first = String(unseenSeed()), part] = process.argv.slice(2);
const tellEvery = 100;
/** After the seeds under way. */
const endSignals = ["SIGINT", "SIGTERM"] as const;

const commands: Readonly<Record<string, (drawn: Drawn) => string>> = {
  runs: ({ seed, events }) => `server/sim/runs/run-seeds.ts ${seed} 1 ${events}`,
  scheduler: (drawn) =>
    `server/sim/scheduler/run-seed.ts ${drawn.seed} ${drawn.events}${kindOf(drawn)}`,
};
const commandOf = commands[name];
if (commandOf === undefined)
  throw new Error(`there are simulations of ${Object.keys(commands).join(" and ")}`);

async function withRun(use: (run: Run) => Promise<void>): Promise<void> {
  if (name === "scheduler") {
    return await use(({ events, ...drawn }) => runScheduler({ ...drawn, steps: events }));
  }
  await withSimDatabase(async (database) => {
    await use(({ seed, events }) => runRuns({ database, seed, events }));
  });
}

/** Every `of`-th seed, beginning with the `at`-th. */
async function runPart(
  run: Run,
  { at, of }: { readonly at: number; readonly of: number },
): Promise<void> {
  let tried = 0;
  let failed = 0;
  let isEnding = false;
  for (const signal of endSignals) process.once(signal, () => (isEnding = true));
  for (let index = at; index < Number(count) && !isEnding; index += of) {
    const drawn = drawnOf(Number(first) + index);
    try {
      await run(drawn);
    } catch (error) {
      failed++;
      process.exitCode = 1;
      const text = errorMessage(error);
      process.stdout.write(`FAILED node ${commandOf?.(drawn)}\n  ${text}\n`);
    }
    tried++;
    if (tried % tellEvery === 0)
      process.stdout.write(`part ${at + 1}: ${tried} seeds, ${failed} failed\n`);
  }
  process.stdout.write(`part ${at + 1} of ${of} has ended: ${tried} seeds, ${failed} failed\n`);
}

if (part === undefined) {
  const of = Math.min(availableParallelism(), Number(count));
  process.stdout.write(
    `${count} seeds of the simulation of ${name} from ${first} on, in ${of} processes\n`,
  );
  const children = Array.from({ length: of }, (_, at) => {
    const script = process.argv[1] ?? "";
    return spawn(process.execPath, [script, name, count, first, `${at}/${of}`], {
      stdio: "inherit",
    });
  });
  for (const signal of endSignals) {
    process.once(signal, () => {
      for (const child of children) child.kill();
    });
  }
  const codes = await Promise.all(
    children.map(async (child) => (await once(child, "exit"))[0] as number | null),
  );
  process.exitCode = codes.every((code) => code === 0) ? 0 : 1;
} else {
  const [at = 0, of = 1] = part.split("/").map(Number);
  await withRun((run) => runPart(run, { at, of }));
}
