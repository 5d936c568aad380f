// `node tools/release.ts 0.2.0` makes a release of what is in changes/, for a person to read and
// commit. `--check` only says whether each file of changes/ is as a release needs it; `npm run
// check` runs that.
import { readChanges } from "./release/changes.ts";
import { changeFiles, makeRelease } from "./release/release.ts";
import { projectDir } from "./tidy/tree.ts";

const usage = "usage: node tools/release.ts <version>, such as 0.2.0; or --check\n";
const [argument, ...others] = process.argv.slice(2);
if (argument === undefined || others.length > 0) {
  process.stderr.write(usage);
  process.exitCode = 2;
} else {
  try {
    process.stdout.write(argument === "--check" ? check() : release(argument));
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n`);
    process.exitCode = 1;
  }
}

function check(): string {
  return `${readChanges(changeFiles(projectDir)).length} entries\n`;
}

function release(version: string): string {
  const today = new Date().toISOString().slice(0, 10);
  const { entries, files } = makeRelease(projectDir, version, today);
  return `CHANGELOG.md has ${entries.length} new entries, of ${files} files in changes/.
All package.json files, lock files and documents say ${version}.
Next:
1. Read the new section of CHANGELOG.md as somebody who upgrades. To correct it,
   take all of this back (git restore .), change the files in changes/, and try again.
2. npm run check, and .ci/run
3. git add --all && git commit -m "Release ${version}"
4. git tag -a v${version} -m "Slipway ${version}" && git push --follow-tags
`;
}
