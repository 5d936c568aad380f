// Secrets of builds with the docker driver: they are mounted for the steps that may have them, and
// in nothing that the engine keeps of a build.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { appIdOf, newProjectId } from "#lib/ids.ts";
import { baseImage, noEngine, openEngine } from "#test/support/docker-engine.ts";
import { runDocker, type Engine } from "#test/support/dockerd.ts";
import { imageBuilds } from "#test/support/image-builds.ts";

const skip = await noEngine();
const value = "sesame-4e1b+open/õ\n";
const leak = /sesame-4e1b|c2VzYW1lLTRlMW/;

/** What the engine says of an image, and the bytes of its layers. */
function all(engine: Engine, image: string): string {
  const told = ["history --no-trunc", "inspect"].map((words) =>
    runDocker(engine, "image", ...words.split(" "), image),
  );
  const saved = execFileSync("docker", ["-H", engine.dockerHost, "save", image], {
    maxBuffer: 2e9,
    encoding: "latin1",
  });
  return `${told.join("\n")}${saved}`;
}

test(
  "a build gets the secrets that its settings name, and keeps none of them",
  { skip },
  async (t) => {
    const engine = await openEngine();
    const builds = imageBuilds(t, engine);
    const lines: string[] = [];
    const isThere = 'test "$(printf %s "$TOKEN" | wc -c)" = 20';
    const plan = {
      baseImage,
      preBuildCommands: [isThere],
      shellCommands: [
        isThere,
        'echo "it is $TOKEN"; printf %s "$TOKEN" | base64',
        "test ! -e /run/secrets/OTHER",
      ],
    };
    const secrets = { TOKEN: value };
    const { image } = await builds.build({ "main.py": "" }, { plan, secrets, lines });
    assert.ok(
      lines.some((line) => line.includes("it is [secret]")),
      lines.join("\n"),
    );
    assert.doesNotMatch(lines.join("\n"), leak);
    assert.doesNotMatch(all(engine, image), leak);
    const failing = { baseImage, shellCommands: ['echo "no entry for $TOKEN"; exit 3'] };
    await assert.rejects(
      builds.build({ "main.py": "" }, { plan: failing, secrets, lines }),
      (error: Error) => {
        assert.match(
          error.message,
          /^Command 1 of shell_commands ended with exit code 3: .*no entry for \[secret\]/,
        );
        return true;
      },
    );
    assert.doesNotMatch(lines.join("\n"), leak);
  },
);

test(
  "an app's own Dockerfile mounts them by name, each app with its own values",
  { skip },
  async (t) => {
    const engine = await openEngine();
    const builds = imageBuilds(t, engine);
    const lines: string[] = [];
    const step =
      "RUN --mount=type=secret,id=TOKEN wc -c < /run/secrets/TOKEN > /got; ls /run/secrets >> /got";
    const files = {
      Dockerfile: `FROM ${baseImage}\n${step}\nRUN --mount=type=secret,id=OTHER test ! -e /run/secrets/OTHER\nCMD ["cat", "/got"]\n`,
    };
    const projectId = newProjectId();
    const lengths: string[] = [];
    for (const [name, token] of [
      ["one", value],
      ["two", "sesame-4e1b"],
    ] as const) {
      const plan = {
        runtime: "custom",
        dockerfilePath: "Dockerfile",
        appId: appIdOf(projectId, name),
      } as const;
      const { image } = await builds.build(files, { plan, secrets: { TOKEN: token }, lines });
      lengths.push(runDocker(engine, "run", "--rm", image));
      assert.doesNotMatch(all(engine, image), leak);
    }
    assert.deepEqual(lengths, ["20\nTOKEN", "11\nTOKEN"]);
    assert.match(
      lines.join("\n"),
      /Warning: the Dockerfile mounts the secret OTHER, which is no build secret of the app/,
    );
  },
);
