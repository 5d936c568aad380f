// `slipway restart`: starts the platform of this machine again, with its program and settings of
// now. The running one starts its successor with its own socket, so that no call is refused.
import { readFileSync, rmSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { command } from "./command.ts";
import { trustedInstallation, trustOption, type Installation } from "./installation.ts";
import type { Machine } from "./machine.ts";
import { refuseInOwnContainer } from "./own-container.ts";
import { Refused } from "./refused.ts";
import { replaceFile } from "./replace-file.ts";
import { hasService, systemctl } from "./systemd.ts";
import {
  aboutLog,
  checkActive,
  greet,
  inTurn,
  running,
  signInToService,
  startAlone,
  type Begun,
  type Bootstrap,
  type PlatformProgram,
} from "./up.ts";

/** A platform gives running calls, and async runs, half a minute each unless it has settings. */
const stopMs = 300_000;
const lookEveryMs = 100;

/** Restarts the platform. */
export const restart = command({
  name: "restart",
  about: `Start the platform on this machine again, with its program and the settings of now, such as after getting a new version.
Calls go on meanwhile: new ones wait for a few seconds, and none is refused. A service is restarted by systemd, with its own
settings, which needs root. When nothing runs, it does what slipway up does.`,
  examples: ["restart"],
  options: trustOption,
  async run(given, machine) {
    refuseInOwnContainer(machine, "restart");
    const installation = await trustedInstallation(given, machine);
    const start = { given, installation, machine };
    if (hasService(installation)) {
      systemctl("restart", "slipway");
      await signInToService(start, checkActive);
      return;
    }
    const bootstrap = await inTurn(installation, machine, () => replace(installation, machine));
    await greet(bootstrap, aboutLog(installation, machine), start);
  },
});

async function replace(installation: Installation, machine: Machine): Promise<Bootstrap> {
  const { dataDir } = installation;
  const pid = (await running(installation, machine)) === null ? null : readPid(dataDir);
  if (pid === null) return await startAlone(installation, machine);
  if (handsOver(pid)) {
    machine.tell("The platform is asked to start its successor.");
    const file = join(dataDir, "successor.json");
    const ask = (program: PlatformProgram): Begun => askForSuccessor(program, { pid, file });
    try {
      return await startAlone(installation, machine, ask);
    } finally {
      // The platform has taken it, unless this has failed.
      rmSync(file, { force: true });
    }
  }
  machine.tell(
    `The running platform (process ${pid}) is of a version that cannot hand over its socket: calls are refused until the next one is ready.`,
  );
  await stop(pid);
  return await startAlone(installation, machine);
}

/** The running platform opens the log itself, and writes the process id of its successor there. */
function askForSuccessor(
  { log: _log, ...successor }: PlatformProgram,
  { pid, file }: { readonly pid: number; readonly file: string },
): Begun {
  // Settings may be secrets, so that only the platform reads them.
  replaceFile(file, JSON.stringify(successor), 0o600);
  process.kill(pid, "SIGUSR2");
  const successorPid = (): string | undefined =>
    /^slipway successor (.*)$/m.exec(readFileSync(successor.logFile, "utf8"))?.[1];
  return {
    pid: () => Number(successorPid()) || undefined,
    failure() {
      const printed = successorPid();
      if (printed === undefined) return !isAlive(pid);
      return printed === "failed" || !isAlive(Number(printed));
    },
  };
}

async function stop(pid: number): Promise<void> {
  process.kill(pid, "SIGTERM");
  const beganMs = performance.now();
  while (isAlive(pid)) {
    if (performance.now() - beganMs > stopMs)
      throw new Refused(
        `The platform (process ${pid}) has not stopped within ${stopMs / 1000} s. When it has: slipway up`,
      );
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
  }
}

/** Null: the platform that answers is not of this machine. */
function readPid(dataDir: string): number | null {
  try {
    const pid = Number(readFileSync(join(dataDir, "slipway.pid"), "utf8").trim());
    return pid > 0 && isAlive(pid) ? pid : null;
  } catch {
    return null;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}

/** Whether it handles the signal that would end an earlier version; only Linux tells. */
function handsOver(pid: number): boolean {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const caught = BigInt(`0x${/^SigCgt:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? "0"}`);
    return ((caught >> BigInt(constants.signals.SIGUSR2 - 1)) & 1n) === 1n;
  } catch {
    return false;
  }
}
