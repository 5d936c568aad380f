// Keeps package-lock.json complete: npm omits optional packages that a registry does not offer (binaries for other platforms,
// on a mirror that holds only some), and then `npm ci` refuses the lock file everywhere. `--check` lists the missing ones,
// `--write` adds them by name, version, operating system and processor, which is all that npm needs to skip them; whoever
// installs on such a platform gets them from the registry like any other package.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { completeLock, missingPackages, type LockFile } from "./lock/complete-lock.ts";
import { projectDir } from "./tidy/tree.ts";

const path = join(projectDir, "package-lock.json");
const lock = JSON.parse(readFileSync(path, "utf8")) as LockFile;
const missing = missingPackages(lock);
if (process.argv.includes("--write")) {
  writeFileSync(path, `${JSON.stringify(completeLock(lock), null, 2)}\n`);
} else if (missing.length > 0) {
  console.log(`package-lock.json lacks ${missing.map(({ name }) => name).join(", ")}`);
  process.exitCode = 1;
}
