// A data folder with apps for tests of the process driver, and a check for what remains of it on
// this machine.
import { installationOf } from "#drivers/app-firewall.ts";
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import type { Address, Artifact, Driver, ReplicaSpec } from "#drivers/driver.ts";

import type { Cgroups } from "#drivers/process/cgroup-detect.ts";
import type { DiskWatch } from "#drivers/disk/disk-watch.ts";
import { ProcessDriver } from "#drivers/process/driver.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import type { Sandbox } from "#drivers/process/sandbox.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import type { Behaviour, ConformanceFixture } from "./driver-conformance.ts";
import { diskWatch } from "./disk-watch.ts";
import { makeFolder } from "./folder.ts";
import { noCgroups } from "./no-cgroups.ts";
import { replicaSpec } from "./replica-spec.ts";
import { widePlacement } from "./wide-placement.ts";

/** Replaces the runtime unless the real one is requested. */
const testRuntimeDir = join(import.meta.dirname, "driver-runtime");
export const cortexRuntimeDir = join(import.meta.dirname, "../../../runtimes/python");

/** The interpreter behind `python3`, with shims resolved. */
export const python = execFileSync("python3", ["-c", "import sys; print(sys.executable)"], {
  encoding: "utf8",
}).trim();

/** One data folder; `close` removes it. */
export class ProcessFixture implements ConformanceFixture {
  readonly dataDir: string;
  readonly #sandbox: Sandbox;
  readonly #runtimeDir: string;
  readonly #cgroups: Cgroups;
  #apps = 0;

  constructor(options: {
    readonly sandbox: Sandbox;
    readonly runtimeDir?: string;
    readonly cgroups?: Cgroups;
    readonly dataDir?: string;
  }) {
    this.dataDir = options.dataDir ?? makeFolder("replicas with blanks");
    this.#sandbox = ofInstallation(options.sandbox, this.dataDir);
    this.#cgroups = options.cgroups ?? noCgroups;
    this.#runtimeDir = options.runtimeDir ?? testRuntimeDir;
    mkdirSync(join(this.dataDir, "venv/bin"), { recursive: true });
    symlinkSync(python, join(this.dataDir, "venv/bin/python"));
  }

  get replicasDir(): string {
    return join(this.dataDir, "replicas");
  }

  driver(
    disk: DiskWatch = diskWatch(this.dataDir),
    placement = widePlacement(),
    clock: Clock = systemClock,
  ): Driver {
    return new ProcessDriver({
      ...this.places(),
      disk,
      placement,
      clock,
      log: silentLog,
    });
  }

  /** The serializable part of a driver's options. */
  places() {
    return {
      installationId: "process-ground",
      dataDir: this.dataDir,
      replicasDir: this.replicasDir,
      storageDir: join(this.dataDir, "storage"),
      runtimeDir: this.#runtimeDir,
      sandbox: this.#sandbox,
      cgroups: this.#cgroups,
    };
  }

  spec(behaviour: Behaviour): ReplicaSpec {
    if (behaviour.kind === "refused") {
      const artifact = { ...this.artifact({}), appDir: join(this.dataDir, "no-such-app") };
      return replicaSpec({ artifact });
    }
    const { output, ...said } =
      behaviour.kind === "exits" ? behaviour : { ...behaviour, output: Buffer.alloc(0) };
    return replicaSpec({
      artifact: this.artifact({ "behaviour.json": JSON.stringify(said), output }),
    });
  }

  /** An app with these files. */
  artifact(files: Readonly<Record<string, string | Buffer>>): Artifact {
    const appDir = join(this.dataDir, "builds", String(this.#apps++), "app");
    mkdirSync(appDir, { recursive: true });
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(dirname(join(appDir, name)), { recursive: true });
      writeFileSync(join(appDir, name), content);
      chmodSync(join(appDir, name), 0o644);
    }
    const venvDir = join(this.dataDir, "venv");
    return {
      kind: "process",
      appDir,
      python: join(venvDir, "bin/python"),
      venvDir,
      pythonVersion: "3",
      takesRootPath: false,
    };
  }

  isReady(address: Address): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = connect(address, () => {
        socket.destroy();
        resolve(true);
      });
      socket.on("error", () => resolve(false));
    });
  }

  remains(): Promise<readonly string[]> {
    const folders = existsSync(this.replicasDir) ? readdirSync(this.replicasDir) : [];
    return Promise.resolve([...folders.map((name) => `folder ${name}`), ...this.processes()]);
  }

  /**
   * Every process whose command line or environment contains the path of the data folder, or
   * another text.
   */
  processes(part = this.dataDir): string[] {
    return readdirSync("/proc").flatMap((pid) => {
      if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return [];
      const command = read(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim();
      if (command === "" || !`${command} ${read(`/proc/${pid}/environ`)}`.includes(part)) return [];
      return [`process ${pid}: ${command.slice(0, 200)}`];
    });
  }

  /** Overlays leave folders that not even their owner may enter; the driver can remove them. */
  close(): Promise<void> {
    return removeFolder(this.dataDir);
  }
}

/** With its own nftables rules: other test files have theirs. */
function ofInstallation(sandbox: Sandbox, dataDir: string): Sandbox {
  if (sandbox.kind === "none" || sandbox.network.kind === "shared") return sandbox;
  return { ...sandbox, network: { ...sandbox.network, installation: installationOf(dataDir) } };
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
