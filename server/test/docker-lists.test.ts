// What an app's own Dockerfile finds beside it: lists of packages made from the settings, and files
// in any encoding.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { baseImage, noEngine, openEngine } from "#test/support/docker-engine.ts";
import { runDocker } from "#test/support/dockerd.ts";
import { imageBuilds } from "#test/support/image-builds.ts";

const skip = await noEngine();

function dockerfile(end: string): string {
  return `FROM ${baseImage}\nWORKDIR /srv/app\nCOPY . .\nRUN echo made > made.txt\n${end}\n`;
}

test(
  "package lists of the settings are files for a Dockerfile, and its encoding does not matter",
  { skip },
  async (t) => {
    const engine = await openEngine();
    const builds = imageBuilds(t, engine);
    const plan = { runtime: "custom", dockerfilePath: "docker/own" } as const;
    const lists = { ...plan, requirements: ["six==1.16.0", "idna"], aptPackages: ["ffmpeg"] };
    const copying = "CMD cat requirements.txt pkglist.txt";
    const noted: string[] = [];
    const fromTable = await builds.build(
      { "docker/own": dockerfile(copying) },
      { plan: lists, lines: noted },
    );
    assert.equal(runDocker(engine, "run", "--rm", fromTable.image), "six==1.16.0\nidna\nffmpeg");
    assert.doesNotMatch(noted.join("\n"), /Not used with a Dockerfile/);
    const both = { "docker/own": dockerfile(copying), "requirements.txt": "mine\n" };
    const ofApp = await builds.build(both, { plan: lists });
    assert.equal(runDocker(engine, "run", "--rm", ofApp.image), "mine\nffmpeg");
    const encoded = {
      ".dockerignore": Buffer.from("\ufeffsecret.txt\r\n", "utf16le"),
      "secret.txt": "x",
      "docker/own": Buffer.from(`# caf\xe9\n${dockerfile('CMD ["ls"]')}`, "latin1"),
    };
    const read = await builds.build(encoded, { plan });
    assert.equal(runDocker(engine, "run", "--rm", read.image), "docker\nmade.txt");
  },
);
