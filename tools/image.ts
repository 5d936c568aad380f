// Makes the container image of the platform from this checkout and its lock file, in the engine
// that `docker` uses, and prints what it is made of:
//
//   node tools/image.ts --base debian:trixie-slim@sha256:… [--tag slipway:0.2.0]
//     [--platform linux/arm64] [--sbom dist] [-- options of docker build]
//
// One call makes the image for one kind of processor. `--sbom` writes its bill of materials into
// that folder.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { arch, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { baseOf, engineSays, partSizes } from "./image/engine.ts";
import { fillContext, processors, type Platform } from "./image/context.ts";
import { billOfMaterials } from "./image/bill-of-materials.ts";
import { commonManifest } from "./pack/package-files.ts";
import { projectDir } from "./tidy/tree.ts";

const { version, license, description } = commonManifest();
const { values, positionals } = parseArgs({
  options: {
    base: { type: "string" },
    tag: { type: "string", default: `slipway:${version}` },
    platform: { type: "string", default: arch() === "arm64" ? "linux/arm64" : "linux/amd64" },
    sbom: { type: "string" },
  },
  allowPositionals: true,
});
const platform = values.platform as Platform;
const usable = Object.keys(processors).join(" and ");
if (!Object.hasOwn(processors, platform))
  stop(`--platform is ${platform}, but images are made for ${usable}: one call for each.`);
if (values.base === undefined)
  stop("--base is missing: the Debian image to begin with, debian:trixie-slim@sha256:….");
const base =
  baseOf(values.base) ??
  stop(
    `--base is ${values.base}, but must say which image exactly: with its digest (NAME@sha256:…), or as one that the engine has. docker buildx imagetools inspect ${values.base} shows the digest.`,
  );

const work = mkdtempSync(join(tmpdir(), "slipway-image-"));
try {
  await fillContext(work, platform);
  build(work);
} finally {
  rmSync(work, { recursive: true });
}
const sbom = billOfMaterials({ image: values.tag, version, platform });
if (values.sbom !== undefined) {
  mkdirSync(resolve(values.sbom), { recursive: true });
  const file = join(resolve(values.sbom), `slipway-${version}-${platform.slice(6)}.cdx.json`);
  writeFileSync(file, `${JSON.stringify(sbom, null, 2)}\n`);
  print(`Its ${sbom.components.length} components are listed in ${file}.`);
}
const parts = partSizes(values.tag);
const wholeBytes = parts.reduce((sum, { bytes }) => sum + bytes, 0);
print(`${values.tag}, ${platform}: ${megabytes(wholeBytes)}`);
for (const { name, bytes } of parts) print(`  ${megabytes(bytes).padStart(9)}  ${name}`);
print(`Its id: ${engineSays("image", "inspect", "--format", "{{.Id}}", values.tag)}`);

function build(context: string): void {
  const labels = {
    title: "Slipway",
    description,
    version,
    licenses: license,
    revision: git("rev-parse", "HEAD"),
    created: git("log", "-1", "--format=%cI"),
    "base.name": base.name,
    "base.digest": base.digest,
  };
  const named = Object.entries(labels).map(
    ([name, value]) => `--label=org.opencontainers.image.${name}=${value}`,
  );
  const words = [
    `--platform=${platform}`,
    `--tag=${values.tag}`,
    `--build-arg=BASE=${base.reference}`,
  ];
  const env = { ...process.env, DOCKER_BUILDKIT: "1" };
  const { status } = spawnSync("docker", ["build", ...words, ...named, ...positionals, context], {
    stdio: "inherit",
    env,
  });
  if (status !== 0) stop("docker build failed: what it printed is above.");
}

function git(...words: readonly string[]): string {
  return spawnSync("git", words, { cwd: projectDir, encoding: "utf8" }).stdout.trim();
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

function stop(why: string): never {
  process.stderr.write(`${why}\n`);
  process.exit(1);
}
