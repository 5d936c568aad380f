// Writes contract/openapi.json and docs/app-settings.md from the contract's tables; with `--check`
// it only compares, and fails when one differs.
import { readFile, writeFile } from "node:fs/promises";
import { fieldsPage } from "@slipway/contract/fields-page.ts";
import { openApiDocument } from "@slipway/contract/openapi.ts";

const files: readonly (readonly [path: string, text: string])[] = [
  ["contract/openapi.json", `${JSON.stringify(openApiDocument(), null, 2)}\n`],
  ["docs/app-settings.md", fieldsPage()],
];

for (const [path, wanted] of files) {
  const file = new URL(`../${path}`, import.meta.url);
  if (!process.argv.includes("--check")) {
    await writeFile(file, wanted);
  } else if ((await readFile(file, "utf8").catch(() => "")) !== wanted) {
    console.error(
      `${path} is not what the contract says; run: node_modules/.bin/node tools/openapi.ts`,
    );
    process.exitCode = 1;
  }
}
