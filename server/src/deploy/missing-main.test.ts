// What to do about an app without a main.py, for each kind of folder and both drivers.
import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { resolveSettings } from "#apps/settings.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { appFiles } from "./app-files.ts";
import { whyNoMain } from "./missing-main.ts";

type Given = {
  readonly names: readonly string[];
  readonly driver?: "docker" | "process";
  readonly body?: object;
};

function why({ names, driver = "docker", body = { gitRepo: "acme/app" } }: Given): string {
  const { settings } = resolveSettings({
    body: { name: "app", ...body },
    configToml: null,
    providers: [],
  });
  return whyNoMain({ settings, names, driver, canBuildDockerfiles: driver === "docker" });
}

test("a Dockerfile without a main.py: what to set with the docker driver, and what works with processes", () => {
  const set =
    "set dockerfilePath to Dockerfile (PATCH …/apps/{app}, or dockerfile_path below [cerebrium.runtime.custom] in slipway.toml)";
  const missing =
    "There is no main.py in the repository's root, where the cortex runtime looks for the app's functions, but there is ";
  assert.equal(
    why({ names: ["Dockerfile", "server.js"] }),
    `${missing}Dockerfile. To have the app built from it, ${set}, and port to the port that the app listens on.`,
  );
  const asProcess = why({ names: ["Dockerfile", "server.js"], driver: "process" });
  assert.ok(
    asProcess.startsWith(
      `${missing}Dockerfile, which the process driver cannot build; the docker driver does`,
    ),
  );
  assert.ok(asProcess.includes(`Ask the operator to switch to it, and ${set}.`));
  assert.match(
    asProcess,
    /without its Dockerfile, set runtime to custom and entrypoint to its start command/,
  );
});

test("a Dockerfile in another spelling or folder is named as it is", () => {
  for (const name of [
    "dockerfile",
    "Containerfile",
    "Dockerfile.gpu",
    "api.Dockerfile",
    "docker/Dockerfile",
  ]) {
    assert.ok(
      why({ names: ["README.md", name] }).includes(`set dockerfilePath to ${name} (`),
      name,
    );
  }
  for (const name of [
    "Dockerfile.dockerignore",
    "dockerfile.py",
    "dockerfiles",
    "my-dockerfile-notes.md",
  ]) {
    assert.doesNotMatch(why({ names: [name] }), /dockerfilePath/, name);
  }
  assert.match(
    why({ names: ["Dockerfile.gpu", "Dockerfile"] }),
    /but there is Dockerfile, Dockerfile\.gpu\. .*to Dockerfile \(/,
  );
  assert.match(
    why({ names: ["api/Dockerfile"] }),
    /copies only the files of api, set gitPath to that folder as well\./,
  );
  assert.match(
    why({ names: ["api/Dockerfile"], body: {} }),
    /in the app's folder.*of api, deploy that folder\./,
  );
});

test("what else a folder has says what is expected", () => {
  const git = { gitRepo: "acme/app", gitPath: "apps" };
  assert.match(
    why({ names: ["src/main.py"], body: git }),
    /in the folder apps, .*set gitPath to apps\/src \(PATCH/,
  );
  assert.match(
    why({ names: ["src/main.py"], body: {} }),
    /If the app is there, deploy the folder src\.$/,
  );
  assert.match(
    why({ names: ["app.py"] }),
    /but there is app\.py\. Rename it to main\.py if .*; if it serves by itself, set runtime/,
  );
  assert.match(
    why({ names: ["package.json"] }),
    /but there is package\.json\. Such an app is built from a Dockerfile: add one/,
  );
  assert.match(
    why({ names: ["package.json"], driver: "process" }),
    /to start such an app.*set runtime to custom/i,
  );
  assert.match(
    why({ names: ["Procfile", "web.py"] }),
    /but there is a Procfile, which is not read\. .*entrypoint/,
  );
  assert.match(
    why({ names: ["README.md"] }),
    /Add one, set gitPath to the folder that has it, or use the custom runtime/,
  );
  assert.match(
    why({ names: [], body: {} }),
    /Add one, deploy the folder that has it, or use the custom runtime/,
  );
});

test("the names are those of files in the folder and in the folders there, without hidden ones and links out of it", (t) => {
  const folder = temporaryFolder(t);
  const put = (path: string): void => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), "");
  };
  for (const path of ["Dockerfile", "src/main.py", "a/b/deep.py", ".git/config", "odd\nname.py"])
    put(path);
  symlinkSync("Dockerfile", join(folder, "linked"));
  symlinkSync("/etc/passwd", join(folder, "outside"));
  assert.deepEqual(appFiles(folder).names(), ["Dockerfile", "linked", "src/main.py"]);
});
