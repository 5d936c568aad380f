// The body of `main.ts`, which runs after the version of Node is checked: arguments, settings,
// start, signals, stop.
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { CannotStart } from "#lib/cannot-start.ts";
import { ConfigRefused, dataPaths, readConfig, type Config } from "./config.ts";
import { helpText } from "./config-help.ts";
import { startPlatform, type Platform } from "./platform.ts";
import { closeInheritedDescriptors } from "#lib/inherited-descriptors.ts";
import { createLog, type Log } from "#lib/log.ts";
import { handOver, hasPredecessor, predecessorEnds } from "./successor.ts";
import { systemClock } from "#lib/clock.ts";
import { withDeadline } from "#lib/with-deadline.ts";

/**
 * Runs the platform until a signal ends it. Returns the exit code: 0 after a clean stop, 1
 * otherwise.
 */
export async function runPlatform(args: readonly string[]): Promise<number> {
  const closedDescriptors = closeInheritedDescriptors();
  let config: Config;
  try {
    const { values } = parseArgs({
      args: [...args],
      options: { help: { type: "boolean", short: "h" } },
    });
    if (values.help === true) {
      process.stdout.write(helpText());
      return 0;
    }
    config = readConfig(process.env);
  } catch (error) {
    // For wrong arguments, `parseArgs` throws a TypeError with a code.
    const isUsage =
      error instanceof ConfigRefused || (error instanceof TypeError && "code" in error);
    if (!isUsage) throw error;
    process.stderr.write(`${error.message}\n`);
    return 1;
  }
  const log = createLog({ level: config.logLevel, pretty: isForPeople(config) });
  if (closedDescriptors === null && process.platform === "linux") {
    log.warn(
      "/proc is not readable: files that the platform was started with may be open in apps and builds",
    );
  } else if (closedDescriptors !== null && closedDescriptors.length > 0) {
    log.debug(
      { descriptors: closedDescriptors },
      "closed files that the platform was started with",
    );
  }
  protectFromMemoryKills();
  const signalled = firstSignal();
  let platform: Platform;
  try {
    if (hasPredecessor(config.inheritedSocket) && !(await waitForTurn(signalled))) return 0;
    platform = await startPlatform(config, log);
  } catch (error) {
    if (error instanceof CannotStart) process.stderr.write(`${error.message}\n`);
    else log.fatal({ err: error }, "the platform could not start");
    return 1;
  }
  process.stdout.write(`slipway ready ${platform.baseUrl}\n`);
  if (process.stdout.isTTY) process.stdout.write(nextSteps(config, platform));
  const lost = platform.lost.then((message) => ({ message }));
  const { listener } = platform;
  const { successorFile: file } = dataPaths(config.dataDir);
  // This resolves when another platform, which was requested with SIGUSR2, shares the socket and
  // waits for this one to end.
  const succeeded = handOver({ file, server: listener.server, log }).then(() => {
    listener.isShared = true;
    return "SIGUSR2" as const;
  });
  const reason = await Promise.race([signalled, lost, succeeded]);
  if (typeof reason === "string") {
    log.info({ signal: reason }, "stopping");
    return stop(platform, log);
  }
  process.stderr.write(`${reason.message}\n`);
  await stop(platform, log);
  return 1;
}

/**
 * Longer than any platform takes to stop: it gives running calls, and runs, up to twelve hours
 * each.
 */
const predecessorMs = 25 * 3_600_000;

/** Waits until the platform that has started this one has ended; false: a signal came first. */
async function waitForTurn(signalled: Promise<unknown>): Promise<boolean> {
  const hasEnded = predecessorEnds().then(() => true);
  const isStopped = signalled.then(() => false);
  return await withDeadline(systemClock, predecessorMs, Promise.race([hasEnded, isStopped]));
}

function isForPeople({ logFormat }: Config): boolean {
  return logFormat === "text" || (logFormat === "auto" && process.stderr.isTTY);
}

/** Tells a person at the terminal what to do next, in the words of `slipway up`. */
function nextSteps({ dataDir }: Config, { baseUrl }: Platform): string {
  const { bootstrapFile } = dataPaths(dataDir);
  return [
    `Dashboard: ${baseUrl}/dashboard (sign in with ownerEmail and ownerPassword in ${bootstrapFile})`,
    "Next, in another terminal: slipway up, which signs the command line in. Then, in an empty folder: slipway init, slipway deploy",
    "To stop it: Ctrl-C; its replicas keep running until slipway down\n",
  ].join("\n");
}

/**
 * Lowers the out-of-memory score before the database starts, which inherits it; only root may lower
 * a score. -1000 would forbid the kernel to kill the platform at all; with -500 the kernel kills
 * others first. Apps and builds raise their own scores.
 */
function protectFromMemoryKills(): void {
  try {
    writeFileSync("/proc/self/oom_score_adj", "-500");
  } catch {
    // Without the permission, apps and builds are still killed first.
  }
}

async function stop(platform: Platform, log: Log): Promise<number> {
  try {
    await platform.stop();
    log.info("stopped");
    const replicas = platform.replicas();
    if (replicas > 0) {
      const notice =
        replicas === 1
          ? "1 replica keeps running and waits for the next npm start; npm run stop ends it"
          : `${replicas} replicas keep running and wait for the next npm start; npm run stop ends them`;
      process.stdout.write(`${notice}\n`);
    }
    return 0;
  } catch (error) {
    log.error({ err: error }, "the platform did not stop cleanly");
    return 1;
  }
}

/**
 * A second signal within this time is the same Ctrl-C: the terminal sends it to the platform and to
 * npm, and npm passes it on, on a busy machine some seconds later.
 */
const sameSignalMs = 5_000;

/**
 * Resolves with the first SIGTERM or SIGINT. A second one after `sameSignalMs`, from a person who
 * does not want to wait, ends the process at once.
 */
function firstSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let firstAtMs: number | null = null;
    // The listener is never removed: without a listener, a signal would end the process at once.
    const onSignal = (signal: NodeJS.Signals): void => {
      const nowMs = systemClock.monotonicMs();
      firstAtMs ??= nowMs;
      resolve(signal);
      if (nowMs - firstAtMs > sameSignalMs) process.exit(1);
    };
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, onSignal);
  });
}
