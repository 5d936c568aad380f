// Keeps the lock files, the project's and the dashboard's, complete: npm omits optional packages
// that a registry does not offer (binaries for other platforms, on a mirror that holds only some),
// and then `npm ci` refuses the lock file everywhere. `--check` lists the missing ones, `--write`
// adds them by name, version, operating system and processor, which is all that npm needs to skip
// them; whoever installs on such a platform gets them from the registry like any other package.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { completeLock, missingPackages, type LockFile } from "./lock/complete-lock.ts";
import { projectDir } from "./tidy/tree.ts";

for (const name of ["package-lock.json", "dashboard/package-lock.json"]) {
  const path = join(projectDir, name);
  const lock = JSON.parse(readFileSync(path, "utf8")) as LockFile;
  const missing = missingPackages(lock);
  if (process.argv.includes("--write")) {
    writeFileSync(path, `${JSON.stringify(completeLock(lock), null, 2)}\n`);
  } else if (missing.length > 0) {
    console.log(`${name} lacks ${missing.map((one) => one.name).join(", ")}`);
    process.exitCode = 1;
  }
}
