// Builds the /etc that sandboxes copy: what programs need to find names, certificates, time zones
// and libraries, and nothing else from the machine. Folders are mounted; the account comes from
// `user-account.ts`.
import * as fs from "node:fs";
import { dirname, join, resolve } from "node:path";
import { hostAddress, hostName } from "#drivers/app-firewall.ts";
import { readText } from "./read-text.ts";
import { ownNetwork, type Namespaces } from "./sandbox.ts";
import { isBelow } from "./system-mounts.ts";

/** Files copied unchanged from the machine to the same path. */
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
/** Read by package installers. May contain passwords of package indexes, so only builds see it. */
const installerFiles = ["pip.conf", "uv/uv.toml", "xdg/pip/pip.conf"];
/** Folders without secrets: trusted certificates, not keys. */
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

/** Names of folders in the machine's /etc that sandboxes show. */
export function etcFolders(etc = "/etc"): string[] {
  const isFolder = (name: string): boolean =>
    fs.statSync(join(etc, name), { throwIfNoEntry: false })?.isDirectory() === true;
  const runtimes = fs.existsSync(etc)
    ? fs.readdirSync(etc).filter((name) => runtimeFolders.test(name))
    : [];
  return [...folders, ...runtimes].filter(isFolder).map((name) => join(etc, name));
}

/** Changes with anything that `writeEtc` reads and that sandboxes show of /etc. */
export function etcState(sandbox: Namespaces): string {
  const seen = [
    ...files,
    "resolv.conf",
    ...sandbox.etcFolders.map((folder) => folder.slice("/etc/".length)),
  ].map((name) => {
    const found = fs.lstatSync(`/etc/${name}`, { throwIfNoEntry: false });
    const isLink = found?.isSymbolicLink() === true;
    const file = isLink ? fs.statSync(`/etc/${name}`, { throwIfNoEntry: false }) : found;
    return [
      name,
      isLink ? fs.readlinkSync(`/etc/${name}`) : "",
      file?.ino,
      file?.isFile() === true ? file.ctimeMs : 0,
    ];
  });
  return JSON.stringify(seen);
}

/**
 * Creates the folder `dir`, or overwrites its files. Those of the account are missing: each run has
 * its own.
 */
export function writeEtc(
  dir: string,
  sandbox: Namespaces,
  { isBuild }: { readonly isBuild: boolean },
): void {
  const network = ownNetwork(sandbox);
  fs.mkdirSync(dir, { recursive: true });
  for (const folder of sandbox.etcFolders)
    fs.mkdirSync(join(dir, folder.slice("/etc/".length)), { recursive: true });
  /**
   * Only what is different: somebody may be copying the folder, and a copy of a file that is
   * replaced meanwhile fails.
   */
  const replace: Replace = (to, write) => {
    const made = `${dir}.new`;
    write(made);
    if (fs.existsSync(to) && fs.readFileSync(made).equals(fs.readFileSync(to)))
      return fs.rmSync(made);
    fs.chmodSync(made, 0o644);
    fs.renameSync(made, to);
  };
  for (const name of isBuild ? [...files, ...installerFiles] : files)
    copy(`/etc/${name}`, join(dir, name), replace);
  const write = (name: string, lines: readonly string[]): void =>
    replace(join(dir, name), (to) =>
      fs.writeFileSync(to, lines.map((line) => `${line}\n`).join("")),
    );
  const hostname = readText("/etc/hostname").trim();
  const hosts = network !== null ? [`${hostAddress} ${hostName}`] : [];
  write("hosts", [
    `127.0.0.1 localhost${hostname === "" ? "" : ` ${hostname}`}`,
    "::1 ip6-localhost",
    ...hosts,
  ]);
  const resolver = readText("/etc/resolv.conf")
    .split("\n")
    .filter((line) => line.trim() !== "");
  const servers =
    network !== null ? network.nameServers.map((server) => `nameserver ${server}`) : null;
  const isKept = (line: string): boolean => servers === null || !/^\s*nameserver\s/.test(line);
  write("resolv.conf", [...resolver.filter(isKept), ...(servers ?? [])]);
}

type Replace = (to: string, write: (path: string) => void) => void;

/**
 * Keeps links into the system's folders; copies the content of all others. Omits unreadable files.
 */
function copy(from: string, to: string, replace: Replace): void {
  const found = fs.lstatSync(from, { throwIfNoEntry: false });
  if (found === undefined) return;
  fs.mkdirSync(dirname(to), { recursive: true });
  const target = found.isSymbolicLink() ? resolve(dirname(from), fs.readlinkSync(from)) : null;
  try {
    if (target !== null && isBelow(target, "/usr")) {
      if (fs.lstatSync(to, { throwIfNoEntry: false }) === undefined) fs.symlinkSync(target, to);
      return;
    }
    if ((fs.statSync(from).mode & 0o004) === 0) return;
    replace(to, (path) => fs.copyFileSync(from, path));
  } catch (error) {
    if (!["ENOENT", "EACCES"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
  }
}
