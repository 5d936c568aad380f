// The mounts that make the copy of a zygote's sandbox the sandbox of one replica: /tmp and home,
// in which it finds what the import has written, and its own code, /proc, shared memory, terminals
// and message queues. All else stays: those mounts are read-only, or shared by all
// replicas of the project. Pure.
import type { ReplicaPaths } from "./replica-files.ts";
import { homePath, listenPath } from "./replica-program.ts";
import type { Namespaces } from "./sandbox.ts";
import { codeAlias, hasQueues, viewPath } from "./sandbox-view.ts";

/** One mount, at a path of the sandbox's root. `alias`: `from` is a path there too. */
export type ForkMount =
  | { readonly kind: "bind" | "alias"; readonly from: string; readonly at: string }
  | {
      readonly kind: "overlay" | "tmpfs" | "devpts" | "proc" | "mqueue";
      readonly at: string;
      /** Options of the file system; null: the option has no value. */
      readonly options: readonly (readonly [name: string, value: string | null])[];
      readonly attributes: readonly ("nosuid" | "nodev" | "noexec")[];
    };

/** Folders with what the zygote wrote during the import; null: nothing. */
export type ImportedFiles = {
  readonly home: string | null;
  readonly temporary: string | null;
};

/** The replica's own folders, and those that it shares with its zygote. */
export type ForkedFolders = {
  readonly paths: ReplicaPaths;
  /** The folder with the files of the app's build. */
  readonly appDir: string;
  readonly imported: ImportedFiles;
  readonly sharedMemoryBytes: number;
};

/** The mounts in the order in which they are made. */
export function forkMounts(
  { paths, appDir, imported, sharedMemoryBytes }: ForkedFolders,
  sandbox: Pick<Namespaces, "mounts">,
): readonly ForkMount[] {
  const at = (path: string): string => viewPath + path;
  const queues: ForkMount = {
    kind: "mqueue",
    at: at("/dev/mqueue"),
    options: [],
    attributes: ["nosuid", "nodev", "noexec"],
  };
  const terminals: ForkMount = {
    kind: "devpts",
    at: at("/dev/pts"),
    options: [
      ["newinstance", null],
      ["ptmxmode", "666"],
      ["mode", "620"],
    ],
    attributes: ["nosuid", "noexec"],
  };
  const memory: ForkMount = {
    kind: "tmpfs",
    at: at("/dev/shm"),
    options: [
      ["mode", "1777"],
      ["size", String(sharedMemoryBytes)],
    ],
    attributes: ["nosuid", "nodev"],
  };
  return [
    processes("/proc"),
    processes(at("/proc")),
    ...(hasQueues(sandbox) ? [queues] : []),
    terminals,
    memory,
    written(imported.temporary, paths.temporary, { work: paths.temporaryWork, at: at("/tmp") }),
    { kind: "alias", from: at("/tmp"), at: at("/var/tmp") },
    written(imported.home, paths.home, { work: paths.homeWork, at: at(homePath) }),
    { kind: "bind", from: paths.listen, at: at(listenPath) },
    overlay(appDir, paths.code, { work: paths.overlayWork, at: at(appDir) }),
    { kind: "alias", from: at(appDir), at: at(codeAlias) },
  ];
}

function processes(at: string): ForkMount {
  return { kind: "proc", at, options: [], attributes: ["nosuid", "nodev", "noexec"] };
}

type Place = { readonly work: string; readonly at: string };

/** The replica's folder, in which it also sees the files of `imported`. */
function written(imported: string | null, own: string, place: Place): ForkMount {
  if (imported === null) return { kind: "bind", from: own, at: place.at };
  return overlay(imported, own, place);
}

function overlay(lower: string, upper: string, { work, at }: Place): ForkMount {
  return {
    kind: "overlay",
    at,
    options: [
      ["lowerdir", lower],
      ["upperdir", upper],
      ["workdir", work],
    ],
    attributes: [],
  };
}
