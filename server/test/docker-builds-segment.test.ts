// Steps of builds on one network of the engine do not read each other's traffic, nor that of
// containers beside them, with a real Docker engine of the test's own.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";
import { sameFiles } from "#drivers/docker/own-container.ts";
import { BuildSegment, segmentObstacle } from "#drivers/docker/build-segment.ts";
import { connectEngine } from "#drivers/docker/engine.ts";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { baseImage, noEngine } from "#test/support/docker-engine.ts";
import { runDocker, type Engine } from "#test/support/dockerd.ts";
import { imageBuilds, type ImageBuilds } from "#test/support/image-builds.ts";
import { startOwnEngine } from "#test/support/own-engine.ts";
import { attackerProgram, openMeeting, victimProgram } from "#test/support/layer-two-attack.ts";
import type { WithAfter } from "#test/support/clean-last.ts";
import { until } from "#test/support/until.ts";

const noRules =
  spawnSync("nft", ["list", "tables"]).status === 0 ? false : "this needs root and nft";
const skip = (await noEngine()) || noRules;

const plan = { runtime: "custom", dockerfilePath: "Dockerfile", startsClean: true } as const;

/** Runs the program as a step of a build, and returns what it printed. */
async function runStep(builds: ImageBuilds, program: string, url: string): Promise<string> {
  const lines: string[] = [];
  const Dockerfile = `FROM ${baseImage}\nCOPY step.py .\nRUN python3 -u step.py ${url}\nCMD ["true"]\n`;
  await builds.build({ Dockerfile, "step.py": program }, { plan, lines });
  return lines.filter((line) => !line.includes("RUN")).join("\n");
}

/**
 * What the attacking step of `mine` read, what a container that attacks `beside` it did, and what
 * the victim got.
 */
async function attack(
  t: WithAfter,
  engine: Engine,
  {
    mine,
    theirs,
    isBeside,
  }: { readonly mine: ImageBuilds; readonly theirs: ImageBuilds; readonly isBeside: boolean },
) {
  const meeting = await openMeeting(t, engine.hostAddress, isBeside ? 2 : 1);
  const { url, secrets } = meeting;
  const attackIt = attackerProgram(secrets);
  const words = ["run", "--detach", baseImage, "python3", "-u", "-c", attackIt, url];
  const container = isBeside ? runDocker(engine, ...words) : null;
  const attacker = runStep(mine, attackIt, url);
  const victim = await runStep(theirs, victimProgram(secrets), url).finally(() => meeting.end());
  const step = await attacker;
  if (container === null) return { step, beside: "", victim };
  runDocker(engine, "wait", container);
  return { step, beside: runDocker(engine, "logs", container), victim };
}

test(
  "a step of a build, and a container beside it, read nothing of another project's steps",
  { skip },
  async (t) => {
    const { current: engine } = await startOwnEngine(t);
    const mine = imageBuilds(t, engine);
    const theirs = imageBuilds(t, engine);
    // Two attackers would take each other's place.
    const open = await attack(t, engine, { mine, theirs, isBeside: false });
    assert.match(open.step, /READ VICTIM-PASSWORD/, "the attack is real");
    assert.match(open.step, /READ ANSWER-FOR-THE-VICTIM/, "the attack is real");

    const connected = await connectEngine(engine.socketPath);
    const options = {
      engine: connected,
      machine: sameFiles,
      installation: "feed",
      clock: systemClock,
      log: silentLog,
    };
    assert.equal(await segmentObstacle(options), null);
    const segment = new BuildSegment(options);
    const apart = {
      mine: imageBuilds(t, engine, { segment }),
      theirs: imageBuilds(t, engine, { segment }),
    };
    const kept = await attack(t, engine, { ...apart, isBeside: true });
    assert.doesNotMatch(kept.step, /READ|ENDED/);
    assert.doesNotMatch(kept.beside, /READ|ENDED/);
    assert.match(kept.victim, /^\S+ \S+ ANSWERED$/m);
    assert.match(kept.step, /ATTACKED/);
    assert.match(kept.beside, /ATTACKED/);
    assert.doesNotMatch(
      spawnSync("nft", ["list", "tables"], { encoding: "utf8" }).stdout,
      /bridge slipway_feed/,
    );
  },
);

test("containers beside builds reach each other as before", { skip }, async (t) => {
  const { current: engine } = await startOwnEngine(t);
  const connected = await connectEngine(engine.socketPath);
  const segment = new BuildSegment({
    engine: connected,
    machine: sameFiles,
    installation: "feed",
    clock: systemClock,
    log: silentLog,
  });
  const serve = (): string => {
    const id = runDocker(
      engine,
      "run",
      "--detach",
      baseImage,
      "python3",
      "-m",
      "http.server",
      "8000",
    );
    return runDocker(engine, "inspect", "--format={{.NetworkSettings.IPAddress}}", id);
  };
  // Not `runDocker`: while it waits, nobody here looks at the network.
  const fetchFrom = async (host: string): Promise<string> => {
    const program = `import urllib.request; print(urllib.request.urlopen("http://${host}:8000/", timeout=20).status)`;
    const words = ["--host", engine.dockerHost, "run", "--rm", baseImage, "python3", "-c", program];
    return (await promisify(execFile)("/usr/bin/docker", words)).stdout.trim();
  };
  const earlier = serve();
  const leave = await segment.enter();
  try {
    const later = serve();
    for (const host of [earlier, later])
      await until("a container is reached", async () => (await fetchFrom(host)) === "200");
  } finally {
    await leave();
  }
});
