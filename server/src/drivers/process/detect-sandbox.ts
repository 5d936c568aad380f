// Detects once, at start, whether this machine can sandbox programs: runs one in a sandbox and
// checks what it can see.
import { existsSync } from "node:fs";
import { chown, lstat, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { etcFolders, writeEtc } from "./etc-folder.ts";
import { connectNetwork, detectNetwork, type NetworkWish } from "./network-machine.ts";
import type { Network, OwnNetwork } from "./network.ts";
import { sandboxed, type Namespaces, type Sandbox } from "./sandbox.ts";
import { commandFailure } from "#drivers/short-command.ts";
import { readMounts, type SystemMount } from "./system-mounts.ts";

/**
 * The folders that sandboxes show, as far as they exist: programs need them. Sandboxes also show a
 * part of /etc. They hide all other folders, such as homes, /opt, /var, /run, /srv and /mnt.
 */
const systemFolderNames = [
  "/usr",
  "/bin",
  "/sbin",
  "/lib",
  "/lib32",
  "/lib64",
  "/libx32",
  "/nix",
  "/gnu",
];
/** An unprivileged user id, from the range of `projectUser`, for the probe only. */
const probeUser = 0x7fff0001;
/** How many processes the probe may see: it has a few itself, and a machine has more. */
const processesSeenMax = 6;

/** The default network settings of apps. */
const anyNetwork = { mode: "auto", allowed: [], nameServers: [] } as const;

/**
 * Finds the strongest sandbox that works: with overlays, without them, or none. `folder` is where
 * replicas and builds will be: overlays depend on its file system.
 */
export async function detectSandbox(
  folder: string,
  wish: Omit<NetworkWish, "folder"> = anyNetwork,
): Promise<Sandbox> {
  if (process.platform !== "linux")
    return { kind: "none", reason: `there are no namespaces on ${process.platform}` };
  const machine = {
    systemFolders: systemFolderNames.filter((name) => existsSync(name)),
    etcFolders: etcFolders(),
    mounts: await reachableMounts(),
    isUserOwned: process.getuid?.() !== 0,
  };
  let reason = "";
  for (const hasOverlays of [true, false]) {
    // The reason is true wherever this network stays: for root, `withNetwork` replaces the network.
    const network: Network = { kind: "shared", reason: "the platform is not root" };
    const sandbox = { kind: "namespaces", ...machine, hasOverlays, network } as const;
    const failure = await probe(sandbox, folder);
    if (failure === null) return sandbox.isUserOwned ? sandbox : withNetwork(sandbox, folder, wish);
    reason = failure;
  }
  return { kind: "none", reason };
}

async function withNetwork(
  sandbox: Namespaces,
  folder: string,
  wish: Omit<NetworkWish, "folder">,
): Promise<Namespaces> {
  const attempt = (own: OwnNetwork): Promise<string | null> =>
    probe({ ...sandbox, network: own }, folder);
  const network = await detectNetwork({ folder: await realpath(folder), ...wish }, attempt);
  return { ...sandbox, network };
}

/**
 * The machine's mounts, except those in folders that the platform's user cannot enter. Apps cannot
 * enter these either, and a sandbox cannot show them.
 */
async function reachableMounts(): Promise<readonly SystemMount[]> {
  const mounts = readMounts(await readFile("/proc/self/mountinfo", "utf8"));
  const results = await Promise.allSettled(mounts.map(({ at }) => lstat(at)));
  return mounts.filter((_, index) => results[index]?.status === "fulfilled");
}

/** Null when a sandboxed program works and sees nothing that it should not; else the problem. */
async function probe(sandbox: Namespaces, folder: string): Promise<string | null> {
  await mkdir(folder, { recursive: true });
  const dir = await mkdtemp(join(await realpath(folder), "sandbox-probe-"));
  try {
    const pathOf = (name: string): string => join(dir, name);
    for (const name of ["staging", "code", "upper", "work", "temporary", "etc"])
      await mkdir(pathOf(name));
    await writeFile(pathOf("hidden"), "");
    const user = sandbox.isUserOwned ? null : probeUser;
    // The sandboxed program runs as this user, and writes to these folders.
    if (user !== null) {
      for (const name of ["upper", "temporary"]) await chown(pathOf(name), user, user);
    }
    writeEtc(pathOf("etc"), sandbox, { isBuild: false });
    const overlay = { lower: pathOf("code"), upper: pathOf("upper"), work: pathOf("work") };
    const writtenFolder = sandbox.hasOverlays ? pathOf("code") : "/tmp";
    const run = {
      command: ["/bin/sh", "-c", probeScript, "sh", pathOf("hidden"), writtenFolder],
      cwd: "/tmp",
      environment: {},
      home: "/tmp",
      user: probeUser,
      view: {
        stagingDir: pathOf("staging"),
        readOnly: [],
        writable: [],
        temporaryDir: pathOf("temporary"),
        etcDir: pathOf("etc"),
        overlays: sandbox.hasOverlays ? [overlay] : [],
        hidden: [dir],
      },
    } as const;
    // The probe also tries what only web servers need.
    const hasServer = true;
    const network =
      sandbox.network.kind === "own" ? connectNetwork(sandbox.network, hasServer).setup : null;
    const { file, args, environment } = sandboxed(sandbox, run, network);
    const lines: string[] = [];
    const failure = await commandFailure(
      { command: [file, ...args], cwd: dir, environment },
      lines,
    );
    if (failure !== null) return failure;
    return lines.at(-1) === "works" ? null : "the probe failed";
  } finally {
    // The kernel leaves a folder without permissions in the overlay's work folder.
    await rm(join(dir, "work", "work"), { recursive: true, force: true });
    await rm(dir, { recursive: true, force: true });
  }
}

/** The script gets two paths: of a hidden file, and of a folder in which the script may write. */
const probeScript = `test ! -e "$1" || { echo "its folders cannot be hidden"; exit 1; }
echo written >"$2/written" || exit 1
set -- /proc/[0-9]*
test "$#" -le ${processesSeenMax} || { echo "it sees other processes"; exit 1; }
(echo x >/usr/slipway-probe) 2>/dev/null && { rm -f /usr/slipway-probe; echo "it can change system files"; exit 1; }
echo works`;
