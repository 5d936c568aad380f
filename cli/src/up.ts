// `slipway up`: runs the platform of this machine in the background, waits until it is ready, and
// signs this command line in.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, openSync, closeSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { textOf } from "./answer.ts";
import { ApiClient, ApiRefused } from "./api-client.ts";
import { bootstrapFile, localUrlOf, readBootstrapFields } from "./bootstrap-file.ts";
import { errorMessage } from "./error-message.ts";
import {
  platformEnvironment,
  trustedInstallation,
  trustOption,
  type Installation,
} from "./installation.ts";
import { command, type Given } from "./command.ts";
import { connect, projectsOf } from "./connection.ts";
import { lastLogLines } from "./last-log-lines.ts";
import { listenerOf } from "./listener-owner.ts";
import type { Machine } from "./machine.ts";
import { printJson } from "./output.ts";
import { isInOwnContainer } from "./own-container.ts";
import { plain } from "./plain-text.ts";
import { Progress } from "./progress.ts";
import { publicUrlFinding } from "./public-url.ts";
import { buildDashboard } from "./build-dashboard.ts";
import { Refused } from "./refused.ts";
import { hasService, isActive } from "./systemd.ts";
import { isOfServiceAccount, readSignIns, writeSignIn } from "./sign-ins.ts";
import { keepToken } from "./stored-token.ts";
import { takeTurn } from "./up-turn.ts";

const about = `
Start the platform on this machine in the background, unless it runs already, and wait until it is ready. The first time this
installs its packages and creates a database, a project and tokens; commands then use the project without a sign-in.
Settings are environment variables (slipway start --help). Stop it with slipway down.`;

/** What the platform wrote at its first start. */
export type Bootstrap = {
  readonly baseUrl: string;
  /** Where it listens on this machine. */
  readonly localUrl: string;
  readonly dashboardUrl: string;
  readonly ownerEmail: string;
  readonly serviceAccountToken: string;
};

/** Creating the database of a first start takes seconds; upgrading a large one longer. */
const readyMs = 300_000;
const lookEveryMs = 100;

const aboutService =
  "Its log: journalctl -u slipway. To restart it: systemctl restart slipway. To stop it: slipway down";

/** Starts the platform. */
export const up = command({
  name: "up",
  about,
  examples: ["up", "up --json"],
  options: trustOption,
  async run(given, machine) {
    const installation = await trustedInstallation(given, machine);
    if (hasService(installation)) {
      await signInToService({ given, installation, machine }, checkActive);
      return;
    }
    const bootstrap =
      (await alreadyRunning(installation, machine)) ?? (await start(installation, machine));
    await greet(bootstrap, aboutLog(installation, machine), { given, installation, machine });
  },
});

/** A command that starts the platform, on this machine. */
export type Start = {
  readonly given: Given;
  readonly installation: Installation;
  readonly machine: Machine;
};

/**
 * Waits until the platform answers that systemd starts, and signs in. `check` is called again and
 * again; it throws when the platform will not start.
 */
export async function signInToService(start: Start, check: () => void): Promise<void> {
  const { installation, machine } = start;
  const file = bootstrapFile(installation);
  const late = `The service slipway does not answer, or ${file} is missing, which says where it does. Its log: journalctl -u slipway`;
  const bootstrap = await othersReadiness(installation, machine, { check, late });
  await greet(bootstrap, aboutService, start);
}

/** Throws when systemd does not run the service. */
export function checkActive(): void {
  if (isActive()) return;
  throw new Refused(
    "The platform of this data folder is the service slipway, which does not run. Start it: systemctl start slipway. Its log: journalctl -u slipway",
  );
}

/** What to say about a platform that is no service. */
export function aboutLog(installation: Installation, machine: Machine): string {
  if (isInOwnContainer(machine))
    return "Its log, on the machine: docker logs <container>. To stop it: docker stop <container>";
  return `Its log is ${logFileOf(installation)}. To stop it: slipway down`;
}

/** Signs in, and says where everything is. */
export async function greet(
  bootstrap: Bootstrap,
  log: string,
  { given, installation, machine }: Start,
): Promise<void> {
  // Whatever answers at the public URL, or will one day, is not given the token.
  const { baseUrl, localUrl, dashboardUrl, ownerEmail } = bootstrap;
  const signedInAt = await signIn(bootstrap, installation, machine);
  const isSignedIn = signedInAt !== null;
  const url = signedInAt ?? localUrl;
  if (baseUrl !== url) {
    machine.tell(`Commands on this machine use ${url}. On others: slipway login --url ${baseUrl}`);
  }
  if (baseUrl !== localUrl) {
    const { state, about, todo } = await publicUrlFinding(bootstrap);
    if (state === "warning") machine.tell(`Warning: ${about}. ${todo}`);
  }
  if (given.has("json")) {
    printJson(machine, { url, dashboardUrl, dataDir: installation.dataDir, isSignedIn });
    return;
  }
  machine.tell(
    `Dashboard: ${dashboardUrl} (${plain(ownerEmail)}, with ownerPassword in ${bootstrapFile(installation)})`,
  );
  machine.tell(log);
  if (isSignedIn) machine.tell("Next, in an empty folder: slipway init, then slipway deploy");
}

async function start(installation: Installation, machine: Machine): Promise<Bootstrap> {
  return await inTurn(installation, machine, async () => {
    // Another command has started it until now.
    const bootstrap = await alreadyRunning(installation, machine);
    return bootstrap ?? (await startAlone(installation, machine));
  });
}

/** Does something that no other command does at the same time. */
export async function inTurn<Result>(
  installation: Installation,
  machine: Machine,
  act: () => Promise<Result>,
): Promise<Result> {
  const endTurn = await turn(installation, machine);
  try {
    return await act();
  } finally {
    endTurn();
  }
}

/** Waits for commands that begin to start it too. */
async function turn({ dataDir }: Installation, machine: Machine): Promise<() => void> {
  const progress = new Progress(machine);
  const beganMs = performance.now();
  try {
    for (;;) {
      const endTurn = await takeTurn(dataDir);
      if (endTurn !== null) return endTurn;
      const elapsedMs = performance.now() - beganMs;
      if (elapsedMs > readyMs)
        throw new Refused(`Another slipway up has not ended within ${readyMs / 1000} s.`);
      progress.show(`Waiting for another slipway up … ${Math.floor(elapsedMs / 1000)} s`);
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
    }
  } finally {
    progress.clear();
  }
}

/** Starts the platform, by default as a process of its own; call it in turn. */
export async function startAlone(
  installation: Installation,
  machine: Machine,
  begin: Begin = beginAlone,
): Promise<Bootstrap> {
  setUp(installation);
  const beganMs = performance.now();
  if (!(await startPlatform(installation, machine, begin))) {
    const late = `Another platform uses ${installation.dataDir}, but does not answer. To stop it: slipway down`;
    return await othersReadiness(installation, machine, { check: () => undefined, late });
  }
  const bootstrap = readBootstrap(installation);
  if (bootstrap === null)
    throw new Refused(`${bootstrapFile(installation)} is missing, which the platform had written.`);
  const seconds = ((performance.now() - beganMs) / 1000).toFixed(1);
  machine.tell(`The platform runs at ${bootstrap.baseUrl} (ready after ${seconds} s).`);
  return bootstrap;
}

/**
 * Waits for a platform that was starting already, such as after Ctrl-C. `late`: what to say when it
 * does not answer in time.
 */
async function othersReadiness(
  installation: Installation,
  machine: Machine,
  { check, late }: { readonly check: () => void; readonly late: string },
): Promise<Bootstrap> {
  const progress = new Progress(machine);
  const beganMs = performance.now();
  try {
    for (;;) {
      const bootstrap = await running(installation, machine);
      if (bootstrap !== null) {
        progress.clear();
        machine.tell(`The platform runs at ${bootstrap.baseUrl}.`);
        return bootstrap;
      }
      check();
      const elapsedMs = performance.now() - beganMs;
      if (elapsedMs > readyMs) throw new Refused(late);
      progress.show(
        `Waiting for the platform that is starting … ${Math.floor(elapsedMs / 1000)} s`,
      );
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
    }
  } finally {
    progress.clear();
  }
}

/** What runs on this data folder; null when nothing answers, or only what another user runs. */
export async function running(
  installation: Installation,
  machine: Machine,
): Promise<Bootstrap | null> {
  const bootstrap = readBootstrap(installation);
  if (bootstrap === null) return null;
  if (listenerOf(bootstrap.localUrl, bootstrapFile(installation)) !== "owner") return null;
  try {
    await clientOf(bootstrap, machine).get("/v2/projects");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (!(error instanceof ApiRefused) || error.status !== 401) return null;
  }
  return bootstrap;
}

/** The same, and says so. */
async function alreadyRunning(
  installation: Installation,
  machine: Machine,
): Promise<Bootstrap | null> {
  const bootstrap = await running(installation, machine);
  if (bootstrap !== null) machine.tell(`The platform runs already at ${bootstrap.baseUrl}.`);
  return bootstrap;
}

function clientOf({ localUrl, serviceAccountToken }: Bootstrap, machine: Machine): ApiClient {
  return new ApiClient({
    url: localUrl,
    machine,
    bearer: (isRenewed) => Promise.resolve(isRenewed ? null : serviceAccountToken),
  });
}

/** Installs the packages of a checkout when that is needed; it says what it does. */
function setUp({ root, isCheckout }: Installation): void {
  if (!isCheckout) return;
  const { status } = spawnSync(process.execPath, [join(root, "tools/setup.mjs")], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (status !== 0) throw new Refused("The platform could not be set up; see above.");
}

/** Resolves when it says that it is ready; with false when another platform has the data folder. */
async function startPlatform(
  installation: Installation,
  machine: Machine,
  begin: Begin,
): Promise<boolean> {
  const { root, cwd, dataDir, node, platform } = installation;
  const logFile = logFileOf(installation);
  const log = openLog(dataDir, logFile);
  const bounded = pathToFileURL(join(root, "tools/bounded-log.mjs"));
  bounded.search = new URLSearchParams({ file: logFile }).toString();
  const begun = begin({
    program: [node, "--import", bounded.href, ...platform],
    cwd,
    environment: platformEnvironment(machine, installation),
    logFile,
    log,
  });
  closeSync(log);
  const progress = new Progress(machine);
  const onInterrupt = (): void => {
    progress.clear();
    machine.tell(
      `The platform goes on starting. To wait for it: slipway up. To stop it: slipway down. Its log: ${logFile}`,
    );
  };
  // Before the listener that ends this process.
  process.prependListener("SIGINT", onInterrupt);
  try {
    if (!(await readiness(begun, { installation, progress }))) {
      // The other one still writes there.
      if (existsSync(`${logFile}.1`)) renameSync(`${logFile}.1`, logFile);
      return false;
    }
  } finally {
    process.off("SIGINT", onInterrupt);
    progress.clear();
  }
  return true;
}

/** How the platform is started. */
export type PlatformProgram = {
  readonly program: readonly string[];
  readonly cwd: string;
  readonly environment: NodeJS.ProcessEnv;
  /** Gets what it prints, and is open for that as `log`. */
  readonly logFile: string;
  readonly log: number;
};

/** A platform that is starting. */
export type Begun = {
  /** Undefined: it is not known yet. */
  pid(): number | undefined;
  /** True when it has ended; also an error that says why it did not even begin. */
  failure(): Error | boolean;
};

type Begin = (program: PlatformProgram) => Begun;

function beginAlone({ program, cwd, environment, log }: PlatformProgram): Begun {
  const [file = "", ...words] = program;
  const stdio = ["ignore", log, log] as const;
  const child = spawn(file, words, { cwd, env: environment, detached: true, stdio: [...stdio] });
  let failure: Error | null = null;
  child.on("error", (error) => (failure = error));
  child.unref();
  return {
    pid: () => child.pid,
    failure: () => failure ?? (child.exitCode !== null || child.signalCode !== null),
  };
}

/** A new one; the one before is kept beside it. */
function openLog(dataDir: string, logFile: string): number {
  try {
    if (existsSync(logFile)) renameSync(logFile, `${logFile}.1`);
    return openSync(logFile, "ax", 0o600);
  } catch (error) {
    const why = errorMessage(error);
    throw new Refused(`The data folder ${dataDir} cannot be made or written: ${why}.`, {
      cause: error,
    });
  }
}

async function readiness(
  begun: Begun,
  { installation, progress }: { readonly installation: Installation; readonly progress: Progress },
): Promise<boolean> {
  const logFile = logFileOf(installation);
  const beganMs = performance.now();
  let pid: number | undefined;
  for (;;) {
    const failure = begun.failure();
    const printed = readFileSync(logFile, "utf8");
    if (/^slipway ready /m.test(printed)) return true;
    const elapsedMs = performance.now() - beganMs;
    if (pid === undefined && begun.pid() !== undefined) {
      pid = begun.pid() ?? 0;
      buildDashboard(installation, pid);
    }
    if (failure !== false) {
      if (/ is already using the data folder /.test(printed)) return false;
      throw new Refused(
        `${lastLogLines(printed)}\n\nThe platform did not start; see above. Its log: ${logFile}. To check this machine: slipway doctor`,
        {
          cause: failure,
        },
      );
    }
    if (elapsedMs > readyMs) {
      throw new Refused(
        `The platform is not ready after ${readyMs / 1000} s, but still tries. Its log: ${logFile}`,
      );
    }
    progress.show(`Starting the platform … ${Math.floor(elapsedMs / 1000)} s`);
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
  }
}

/**
 * The URL that commands now use. Null when the token of the first start is no longer valid, which
 * it says.
 */
async function signIn(
  { baseUrl, localUrl: url, serviceAccountToken: token }: Bootstrap,
  installation: Installation,
  machine: Machine,
): Promise<string | null> {
  for (const known of new Set([url, baseUrl])) {
    if (!(await isPersonSignedIn(known, machine))) continue;
    machine.tell(`You are signed in at ${known}; that stays.`);
    return known;
  }
  try {
    await keepToken({ url, token, label: "the first service account" }, machine);
    return url;
  } catch (error) {
    if (!(error instanceof ApiRefused) || error.status !== 401) throw error;
    machine.tell(
      `The token in ${bootstrapFile(installation)} is no longer valid. Sign in: slipway login --url ${url}`,
    );
    return null;
  }
}

/** Makes a person's sign-in there the current one, if the platform still takes it. */
async function isPersonSignedIn(url: string, machine: Machine): Promise<boolean> {
  const signIn = readSignIns(machine).platforms[url];
  if (signIn === undefined || isOfServiceAccount(signIn)) return false;
  const options = {
    operand: () => "",
    operands: () => [],
    has: () => false,
    text: (name: string) => (name === "url" ? url : undefined),
  };
  try {
    await projectsOf(connect(options, { ...machine, environment: {} }));
  } catch (error) {
    if (error instanceof Refused) return false;
    throw error;
  }
  writeSignIn(machine, url, readSignIns(machine).platforms[url] ?? signIn);
  return true;
}

function logFileOf({ dataDir }: Installation): string {
  return join(dataDir, "platform.log");
}

function readBootstrap(installation: Installation): Bootstrap | null {
  try {
    const fields = readBootstrapFields(installation);
    if (fields === null) return null;
    const read = (name: keyof Bootstrap): string => textOf(fields, name);
    return {
      baseUrl: read("baseUrl"),
      localUrl: localUrlOf(fields),
      dashboardUrl: read("dashboardUrl"),
      ownerEmail: read("ownerEmail"),
      serviceAccountToken: read("serviceAccountToken"),
    };
  } catch (error) {
    throw new Refused(`${bootstrapFile(installation)} cannot be used: ${errorMessage(error)}`, {
      cause: error,
    });
  }
}
