// Takes pictures of all pages of the dashboard, in light, dark and on a phone, for people who look
// at them: runs the tests that open them, which write each one into dashboard/pictures, and those
// of the README into docs/pictures. Look at them after a change of the pages.
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { projectDir } from "./tidy/tree.ts";

const folder = join(projectDir, "dashboard", "pictures");
const names = ["app", "certificates", "looks", "new-app", "operator", "project-looks"];
const files = [
  ...names.map((name) => `server/test/dashboard-${name}.test.ts`),
  "server/test/readme-pictures.ts",
];
rmSync(folder, { recursive: true, force: true });
const { status } = spawnSync(process.execPath, ["tools/test.ts", ...files], {
  cwd: projectDir,
  stdio: "inherit",
  env: {
    ...process.env,
    SLIPWAY_TEST_PICTURES: folder,
    SLIPWAY_README_PICTURES: join(projectDir, "docs", "pictures"),
  },
});
console.log(`The pictures are in ${folder}.`);
process.exitCode = status ?? 1;
