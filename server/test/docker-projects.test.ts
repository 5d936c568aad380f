// Packages of pyproject.toml and uv.lock in images, installed by the real uv with a real engine.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { BuildFailed } from "#drivers/builder.ts";
import { noEngine, openEngine } from "#test/support/docker-engine.ts";
import { runDocker } from "#test/support/dockerd.ts";
import { imageBuilds } from "#test/support/image-builds.ts";
import { packageIndexAnswers } from "#test/support/package-index.ts";
import { shop, shopLock, sixHash } from "#test/support/shop-project.ts";

const noDocker = await noEngine();
const skip = noDocker === false ? await packageIndexAnswers() : noDocker;
const given = { isLocked: false, groups: [], extras: ["old"], needsCode: false, digest: "1" };

test(
  "uv installs what pyproject.toml names into an image, and with uv.lock exactly that",
  { skip },
  async (t) => {
    const engine = await openEngine();
    const builds = imageBuilds(t, engine);
    const lines: string[] = [];
    const look = (image: string, code: string): string =>
      runDocker(engine, "run", "--rm", image, "python", "-c", code);
    const plan = { project: given, requirements: ["idna==3.10"] };
    const plain = await builds.build({ "main.py": "", "pyproject.toml": shop }, { plan, lines });
    const seen = look(plain.image, "import six, toml, idna; print(six.__version__ < '1.17')");
    assert.equal(seen, "True", lines.join("\n"));
    assert.ok(lines.includes("dependencies stdout UV_PIP_INSTALL_STARTED"), lines.join("\n"));

    const files = (hash: string) => ({
      "main.py": "",
      "pyproject.toml": shop,
      "uv.lock": shopLock(hash),
    });
    const locked = (digest: string) => ({
      plan: { project: { ...given, isLocked: true, extras: [], digest } },
    });
    const exact = await builds.build(files(sixHash), locked("2"));
    assert.equal(look(exact.image, "import six; print(six.__version__)"), "1.16.0");
    await assert.rejects(builds.build(files("0".repeat(64)), locked("3")), (error) => {
      assert.ok(error instanceof BuildFailed, String(error));
      assert.match(error.message, /^The hash of six==1\.16\.0 is not the one that is written down/);
      return true;
    });
  },
);

const setup = `[project]
name = "shop"
version = "1"
dependencies = ["helper"]
[tool.uv.sources]
helper = { path = "helper" }
`;
const helper = `[project]
name = "helper"
version = "1"
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[tool.setuptools]
py-modules = ["helper"]
`;

test(
  "uv installs a package that is among the files of the app into its image",
  { skip },
  async (t) => {
    const engine = await openEngine();
    const builds = imageBuilds(t, engine);
    const files = {
      "main.py": "",
      "pyproject.toml": setup,
      "helper/pyproject.toml": helper,
      "helper/helper.py": "name = 'of the app'\n",
    };
    const plan = { project: { ...given, extras: [], needsCode: true } };
    const { image } = await builds.build(files, { plan });
    const code = "import helper; print(helper.name)";
    assert.equal(runDocker(engine, "run", "--rm", image, "python", "-c", code), "of the app");
  },
);
