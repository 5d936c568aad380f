// Defines which folders a sandboxed program sees, and the mount tables for them: the system's own
// folders, read-only, and the named folders. Nothing else (other apps, the platform's data, homes)
// exists there. Pure.
import type { UserAccount } from "./user-account.ts";
import { flagsAt, isBelow, mountsBelow, type SystemMount } from "./system-mounts.ts";

/**
 * Path of the view below the root of the run's namespace. Only the system's own folders surround
 * it: a program that gets a folder from another sandbox can climb to that root, and must find
 * nothing there.
 */
export const viewPath = "/view";

/** The alternative path of the app's code, which its commands and settings expect. */
export const codeAlias = "/cortex";

/** The folders that all programs of one platform see. All paths are absolute and exist. */
export type SandboxBase = {
  /**
   * An empty folder. The view is assembled there; outside of the run's namespace it stays empty.
   */
  readonly stagingDir: string;
  /** Copied to /etc; written by `writeEtc`. */
  readonly etcDir: string;
  /** Folders that are hidden even inside a system folder (the data folder in /opt, for example). */
  readonly hidden: readonly string[];
};

/**
 * The folders that one program sees in addition. All paths are absolute and exist. A folder keeps
 * its own path, unless its member says otherwise.
 */
export type SandboxView = SandboxBase & {
  readonly readOnly: readonly string[];
  readonly writable: readonly string[];
  /** Appears as /tmp and /var/tmp. */
  readonly temporaryDir: string;
  readonly account: UserAccount;
  /** Size limit of /dev/shm; half of the machine's memory by default. */
  readonly sharedMemoryBytes?: number;
  /**
   * Read-only folders that look writable: changes to `lower` go to `upper`, and the kernel uses
   * `work` for itself. Only where the sandbox has overlays.
   */
  readonly overlays?: readonly {
    readonly lower: string;
    readonly upper: string;
    readonly work: string;
  }[];
  /** Folders mounted at another path, writable. */
  readonly placed?: readonly { readonly from: string; readonly at: string }[];
  /** Other names for folders of the view. */
  readonly aliases?: readonly { readonly of: string; readonly at: string }[];
};

/** Properties of the machine's own folders; found once by `detectSandbox`. */
export type SandboxContext = {
  /** Top-level folders that every program needs: /usr, /bin, /lib … */
  readonly systemFolders: readonly string[];
  /** The folders of /etc that programs need. */
  readonly etcFolders: readonly string[];
  /** All mounts that the platform's user can access. */
  readonly mounts: readonly SystemMount[];
  /** True when the namespaces belong to an ordinary user: some mounts then need other options. */
  readonly isUserOwned: boolean;
};

/**
 * The mount options of /dev/shm, the shared memory of programs (multiprocessing, PyTorch's
 * loaders).
 */
function sharedMemoryOptions({ sharedMemoryBytes }: SandboxView): string {
  const options = "mode=1777,nosuid,nodev";
  return sharedMemoryBytes === undefined ? options : `${options},size=${sharedMemoryBytes}`;
}

/**
 * Mount options of the file system in the staging folder, which has the tables and /etc, and is not
 * in the program's namespace itself.
 */
export const stagingOptions = "mode=755,size=32m,nosuid,nodev";

/** The run's own copy of /etc, so that no program can watch or lock the files of another one. */
export function etcOf({ stagingDir }: SandboxBase): string {
  return `${stagingDir}/etc`;
}

/** The root of the run's namespace: the tools that set the sandbox up run there. */
export function rootOf({ stagingDir }: SandboxBase): string {
  return `${stagingDir}/root`;
}

/**
 * The first mount table, in the format of fstab(5): the mounts that are the same for each program.
 * Their order matters: a mount hides what was mounted below its path before.
 */
export function baseTable(base: SandboxBase, context: SandboxContext): string {
  const { hidden } = base;
  const outer = rootOf(base);
  const root = outer + viewPath;
  // An empty file system covers each hidden folder that is inside a system folder.
  const covers = hidden.filter((path) => isSystem(path, context));
  const system = (at: string): string[] => [
    ...context.systemFolders.map((path) => readOnly(path, at, context)),
    ...covers.map((path) => line("tmpfs", at + path, "tmpfs", "mode=755,size=1m")),
  ];
  const ownQueues = line("mqueue", `${root}/dev/mqueue`, "mqueue", "nosuid,nodev,noexec");
  return [
    // The root also has the file of `writeEntry` with the variables of a replica: up to 2 MB, and
    // more with quotation marks.
    line("tmpfs", outer, "tmpfs", "mode=755,size=8m,nosuid,nodev,X-mount.mkdir"),
    ...system(outer),
    proc(outer),
    // This root has only the folders on which the other file systems are mounted.
    line("tmpfs", root, "tmpfs", "mode=755,size=4m,nosuid,nodev,X-mount.mkdir"),
    ...system(root),
    ...context.etcFolders.map((path) => readOnly(path, base.stagingDir, context)),
    readOnly("/sys", root, context),
    bind("/dev", `${root}/dev`).text,
    // All projects would share the machine's own message queues.
    ...(hasQueues(context) ? [ownQueues] : []),
    // The second table mounts the program's own shared memory over this.
    line("tmpfs", `${root}/dev/shm`, "tmpfs", "size=4k,nosuid,nodev"),
    line("devpts", `${root}/dev/pts`, "devpts", "newinstance,ptmxmode=666,mode=620,nosuid,noexec"),
    proc(root),
  ].join("");
}

/** Whether programs have message queues, which are of their own then. */
export function hasQueues({ mounts }: Pick<SandboxContext, "mounts">): boolean {
  return mounts.some(({ at }) => at === "/dev/mqueue");
}

/** The second table: the mounts of this program alone. */
export function viewTable(view: SandboxView, context: SandboxContext): string {
  const root = rootOf(view) + viewPath;
  const isHidden = (path: string): boolean => view.hidden.some((folder) => isBelow(path, folder));
  // A read-only folder inside a system folder is there already, unless it was covered.
  const ownMounts = [
    ...view.readOnly
      .filter((path) => isHidden(path) || !isSystem(path, context))
      .map((path) => ({ at: root + path, text: readOnly(path, root, context) })),
    ...view.writable.map((path) => bind(path, root + path)),
    ...(view.placed ?? []).map(({ from, at }) => bind(from, root + at)),
    ...(view.overlays ?? []).map((overlay) => overlayLine(root, overlay, context)),
  ];
  // A folder is mounted before the folders inside it, which a later mount would hide.
  ownMounts.sort((a, b) => a.at.length - b.at.length);
  return [
    line(etcOf(view), `${root}/etc`, "none", "rbind,ro,X-mount.mkdir"),
    // The source has another name than in the first table, because `mount` omits a source that is
    // mounted there already.
    line("shm", `${root}/dev/shm`, "tmpfs", sharedMemoryOptions(view)),
    bind(view.temporaryDir, `${root}/tmp`).text,
    bind(view.temporaryDir, `${root}/var/tmp`).text,
    ...ownMounts.map(({ text }) => text),
    ...(view.aliases ?? []).map(({ of, at }) => bind(root + of, root + at).text),
  ].join("");
}

function isSystem(path: string, { systemFolders }: SandboxContext): boolean {
  return systemFolders.some((folder) => isBelow(path, folder));
}

function proc(root: string): string {
  return line("proc", `${root}/proc`, "proc", "nosuid,nodev,noexec,X-mount.mkdir");
}

/**
 * True when the options of an overlay mount can name `path`: commas and colons are separators
 * there, and a backslash escapes the next character.
 */
export function canOverlay(path: string): boolean {
  return !/[,:\\]/.test(path);
}

type Mount = { readonly at: string; readonly text: string };

/**
 * The line that mounts a folder together with the mounts below it: a user namespace may not look
 * under mounts that it did not make.
 */
function bind(from: string, at: string): Mount {
  return { at, text: line(from, at, "none", "rbind,X-mount.mkdir") };
}

/**
 * The lines that mount a folder read-only, at its own path below `root`, and also each mount below
 * the folder, unless it no longer exists (nofail).
 */
function readOnly(path: string, root: string, { mounts }: SandboxContext): string {
  const below = mountsBelow(path, mounts).map(({ at, flags }) =>
    line(at, root + at, "none", `rbind,ro,${flags}nofail`),
  );
  return [
    line(path, root + path, "none", `rbind,ro,${flagsAt(path, mounts)}X-mount.mkdir`),
    ...below,
  ].join("");
}

function overlayLine(
  root: string,
  overlay: { readonly lower: string; readonly upper: string; readonly work: string },
  context: SandboxContext,
): Mount {
  // Overlays keep notes in extended attributes of files. An ordinary user can set only attributes
  // of the kind `user`.
  const extra = context.isUserOwned ? ",userxattr" : "";
  const options = `lowerdir=${overlay.lower},upperdir=${overlay.upper},workdir=${overlay.work}${extra},X-mount.mkdir`;
  return {
    at: root + overlay.lower,
    text: line("overlay", root + overlay.lower, "overlay", options),
  };
}

/** A line of the table. Its last two fields, for `dump` and `fsck`, have no use here. */
function line(source: string, target: string, type: string, options: string): string {
  return `${escaped(source)} ${escaped(target)} ${type} ${escaped(options)} 0 0\n`;
}

/**
 * Escapes a field of the table: blanks separate the fields and # begins a comment, so these
 * characters and backslashes in a field become octal.
 */
function escaped(field: string): string {
  return field.replaceAll(
    /[\\ \t\n#]/g,
    (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, "0")}`,
  );
}
