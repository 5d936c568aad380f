// Makes the folder that sandboxes copy as their /etc. It has only what programs need to find names,
// certificates, time zones and libraries. The machine's own folders, such as that of certificates,
// are mounted into the copy; the files of the user account come from `user-account.ts`.
import * as fs from "node:fs";
import { dirname, join, resolve } from "node:path";
import { hostAddress, hostName } from "#drivers/app-firewall.ts";
import { readText } from "./read-text.ts";
import { ownNetwork, type Namespaces } from "./sandbox.ts";
import { isBelow } from "./system-mounts.ts";

/** The files of the machine's /etc that are copied unchanged, under the same names. */
const files = [
  "debian_version",
  "gai.conf",
  "host.conf",
  "hostname",
  "inputrc",
  "ld.so.cache",
  "ld.so.conf",
  "locale.alias",
  "locale.conf",
  "localtime",
  "lsb-release",
  "magic",
  "magic.mime",
  "mime.types",
  "networks",
  "nsswitch.conf",
  "os-release",
  "profile",
  "protocols",
  "redhat-release",
  "rpc",
  "services",
  "shells",
  "timezone",
  "ssl/openssl.cnf",
  "pki/tls/openssl.cnf",
];
/**
 * Settings of package installers. Only builds get these files, since they may contain passwords of
 * package indexes.
 */
const installerFiles = ["pip.conf", "uv/uv.toml", "xdg/pip/pip.conf"];
/** Folders of /etc that sandboxes show. They hold no secrets: trusted certificates, but no keys. */
const folders = [
  "alternatives",
  "ca-certificates",
  "fonts",
  "glvnd",
  "ld.so.conf.d",
  "OpenCL",
  "pki/ca-trust/extracted",
  "pki/tls/certs",
  "ssl/certs",
  "terminfo",
  "vulkan",
];
/** Settings of language runtimes that Debian stores here. */
const runtimeFolders = /^(python\d|java-|perl$|R$|ImageMagick-)/;

/** The paths of the folders in the machine's /etc that sandboxes show. */
export function etcFolders(etc = "/etc"): string[] {
  const isFolder = (name: string): boolean =>
    fs.statSync(join(etc, name), { throwIfNoEntry: false })?.isDirectory() === true;
  const runtimes = fs.existsSync(etc)
    ? fs.readdirSync(etc).filter((name) => runtimeFolders.test(name))
    : [];
  return [...folders, ...runtimes].filter(isFolder).map((name) => join(etc, name));
}

/**
 * Describes the files and folders that sandboxes get from the machine's /etc. The text changes when
 * one of them does.
 */
export function etcState(sandbox: Namespaces): string {
  const folderNames = sandbox.etcFolders.map((folder) => folder.slice("/etc/".length));
  const names = [...files, "resolv.conf", ...folderNames];
  return JSON.stringify(names.map(stateOf));
}

/**
 * The name of a file or folder, where it leads if it is a link, its inode, and for a file when it
 * last changed. Changes within a folder need no new copy, since the folder itself is mounted.
 */
function stateOf(name: string): readonly unknown[] {
  const path = `/etc/${name}`;
  const entry = fs.lstatSync(path, { throwIfNoEntry: false });
  const isLink = entry?.isSymbolicLink() === true;
  const file = isLink ? fs.statSync(path, { throwIfNoEntry: false }) : entry;
  const changedMs = file?.isFile() === true ? file.ctimeMs : 0;
  return [name, isLink ? fs.readlinkSync(path) : "", file?.ino, changedMs];
}

/**
 * Creates the folder `dir`, or overwrites its files. It gets no files of a user account, since each
 * run has an account of its own.
 */
export function writeEtc(
  dir: string,
  sandbox: Namespaces,
  { isBuild }: { readonly isBuild: boolean },
): void {
  const network = ownNetwork(sandbox);
  fs.mkdirSync(dir, { recursive: true });
  // The machine's folders are mounted over these empty ones.
  for (const folder of sandbox.etcFolders)
    fs.mkdirSync(join(dir, folder.slice("/etc/".length)), { recursive: true });
  /**
   * Leaves a file with equal content alone: a sandbox may be copying the folder, and the copy fails
   * when a file is replaced meanwhile.
   */
  const replace: Replace = (to, write) => {
    const newFile = `${dir}.new`;
    write(newFile);
    if (fs.existsSync(to) && fs.readFileSync(newFile).equals(fs.readFileSync(to)))
      return fs.rmSync(newFile);
    fs.chmodSync(newFile, 0o644);
    fs.renameSync(newFile, to);
  };
  const copiedFiles = isBuild ? [...files, ...installerFiles] : files;
  for (const name of copiedFiles) copy(`/etc/${name}`, join(dir, name), replace);
  const writeLines = (name: string, lines: readonly string[]): void => {
    const text = lines.map((line) => `${line}\n`).join("");
    replace(join(dir, name), (to) => fs.writeFileSync(to, text));
  };
  writeLines("hosts", hostLines(network));
  writeLines("resolv.conf", resolverLines(network));
}

/** Null: the sandbox shares the machine's network. */
type OwnNetwork = ReturnType<typeof ownNetwork>;

/** With a network of its own, a sandbox reaches the machine by the name `hostName`. */
function hostLines(network: OwnNetwork): readonly string[] {
  const hostname = readText("/etc/hostname").trim();
  const names = hostname === "" ? "localhost" : `localhost ${hostname}`;
  const lines = [`127.0.0.1 ${names}`, "::1 ip6-localhost"];
  return network === null ? lines : [...lines, `${hostAddress} ${hostName}`];
}

/** The lines of the machine's resolv.conf; a network of its own has other name servers. */
function resolverLines(network: OwnNetwork): readonly string[] {
  const lines = readText("/etc/resolv.conf").split("\n");
  const nonEmpty = lines.filter((line) => line.trim() !== "");
  if (network === null) return nonEmpty;
  const others = nonEmpty.filter((line) => !/^\s*nameserver\s/.test(line));
  return [...others, ...network.nameServers.map((server) => `nameserver ${server}`)];
}

/** Calls `write` with the path of a new file; that file then replaces `to` if the two differ. */
type Replace = (to: string, write: (path: string) => void) => void;

/**
 * Copies a file of the machine; a link into /usr, which sandboxes show, stays a link. Skips files
 * that are missing or that not everybody may read.
 */
function copy(from: string, to: string, replace: Replace): void {
  const entry = fs.lstatSync(from, { throwIfNoEntry: false });
  if (entry === undefined) return;
  fs.mkdirSync(dirname(to), { recursive: true });
  const target = entry.isSymbolicLink() ? resolve(dirname(from), fs.readlinkSync(from)) : null;
  try {
    if (target !== null && isBelow(target, "/usr")) {
      if (fs.lstatSync(to, { throwIfNoEntry: false }) === undefined) fs.symlinkSync(target, to);
      return;
    }
    const mayEverybodyRead = (fs.statSync(from).mode & 0o004) !== 0;
    if (!mayEverybodyRead) return;
    replace(to, (path) => fs.copyFileSync(from, path));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "ENOENT" && code !== "EACCES") throw error;
  }
}
