// Writes contract/openapi.json from the table of routes; with `--check` it only compares and fails when they differ.
import { readFile, writeFile } from "node:fs/promises";
import { openApiDocument } from "@slipway/contract/openapi.ts";

const file = new URL("../contract/openapi.json", import.meta.url);
const wanted = `${JSON.stringify(openApiDocument(), null, 2)}\n`;

if (process.argv.includes("--check")) {
  const found = await readFile(file, "utf8").catch(() => "");
  if (found !== wanted) {
    console.error("contract/openapi.json is not what the routes say; run: node_modules/.bin/node tools/openapi.ts");
    process.exitCode = 1;
  }
} else {
  await writeFile(file, wanted);
}
