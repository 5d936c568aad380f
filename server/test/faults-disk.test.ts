// The whole platform on a disk that is filled from outside and freed again, on which it is started,
// and that is read-only: it says what is wrong, loses nothing, and comes back by itself.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { drawTests } from "./support/drawn-cases.ts";
import { deploy } from "./support/examples.ts";
import { startGitServer } from "./support/git-server.ts";
import { PlatformProcess } from "./support/platform-process.ts";
import { noSmallDisk, smallDisk } from "./support/small-disk.ts";
import { until } from "./support/until.ts";

const test = drawTests({ what: "faults of disks", count: 3, max: 1 });

const settings = { SLIPWAY_DISK_RESERVE_MB: "100", SLIPWAY_DATABASE_CONNECTIONS: "4" };

type Stage = {
  readonly platform: PlatformProcess;
  readonly disk: string;
  readonly filling: string;
};

async function open(t: TestContext, more: Record<string, string> = {}): Promise<Stage> {
  const disk = smallDisk(t, { megabytes: 700 });
  const dataDir = join(disk, "data");
  mkdirSync(dataDir);
  const platform = new PlatformProcess(dataDir, { ...settings, ...more });
  t.after(() => platform.remove());
  await platform.restart();
  return { platform, disk, filling: join(disk, "filling") };
}

/** Takes what is free, to the last byte. */
function fill({ filling }: Stage): void {
  for (const bytes of [10_000_000, 4096]) {
    try {
      for (;;) writeFileSync(filling, Buffer.alloc(bytes), { flag: "a" });
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, "ENOSPC");
    }
  }
}

const sentence = /disk (?:is nearly full|is full).*operator/;

test(
  "a full disk is answered 503 with what to do, loses nothing, and is over when there is room",
  { skip: noSmallDisk },
  async (t) => {
    const git = await startGitServer(t);
    const toml = '[cerebrium.deployment]\nname = "echo"\n';
    await git.createRepo("acme", "echo", {
      "main.py": "def run(n):\n    return n\n",
      "slipway.toml": toml,
    });
    const stage = await open(t, { SLIPWAY_GIT_URL: git.urlTemplate });
    const { platform, filling } = stage;
    const app = await deploy(platform, {
      name: "echo",
      gitRepo: "acme/echo",
      minReplicaCount: 1,
      pythonVersion: "3.11",
    });
    assert.equal(app.status, "success", app.log);
    const accept = (): Promise<Response> =>
      platform.call("echo", "run?async=true", { n: "x".repeat(20_000) });
    const accepted: string[] = [];
    const first = await accept();
    assert.equal(first.status, 202);
    accepted.push(((await first.json()) as { run_id: string }).run_id);

    const seen = new Map<string, number>();
    const fault = async (
      what: string,
      response: { status: number; text: () => Promise<string> },
    ): Promise<void> => {
      const text = await response.text();
      if (response.status === 202) accepted.push((JSON.parse(text) as { run_id: string }).run_id);
      if (response.status < 400) return;
      assert.equal(response.status, 503, `${what}: ${text}`);
      assert.match(text, /disk|database/, what);
      if (sentence.test(text)) seen.set(what, (seen.get(what) ?? 0) + 1);
    };
    const { baseUrl, ownerEmail, ownerPassword, projectId } = platform.bootstrap;
    const signIn = (): Promise<Response> =>
      fetch(`${baseUrl}/v2/auth/sign-in`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ email: ownerEmail, password: ownerPassword }),
      });
    let count = 0;
    const setSecret = async (): Promise<{ status: number; text: () => Promise<string> }> => {
      const path = `/v2/projects/${projectId}/secrets`;
      const answer = await platform.api("PATCH", path, { [`NAME_${count++}`]: "x".repeat(20_000) });
      return { status: answer.status, text: () => Promise.resolve(JSON.stringify(answer.body)) };
    };
    await until(
      "async calls and secrets are refused for want of room",
      async () => {
        fill(stage);
        await fault("async call", await accept());
        await fault("sign-in", await signIn());
        await fault("secret", await setSecret());
        return seen.has("async call") && seen.has("secret");
      },
      { deadlineMs: 60_000 },
    );
    const probes = (): Promise<number[]> =>
      Promise.all(
        ["/healthz", "/readyz"].map(async (path) => (await fetch(baseUrl + path)).status),
      );
    assert.deepEqual(await probes(), [200, 503], "alive, but not ready");
    rmSync(filling);
    await until("all is accepted again", async () => {
      const call = await accept();
      const person = await signIn();
      if (call.status === 202) accepted.push(((await call.json()) as { run_id: string }).run_id);
      return call.status === 202 && person.status < 300 && (await setSecret()).status < 300;
    });
    assert.deepEqual(await probes(), [200, 200]);
    const ends = accepted.map(async (runId) => {
      const path = `/v2/projects/${projectId}/apps/${projectId}-echo/runs/${runId}`;
      await until(
        `run ${runId} ends`,
        async () => (await platform.api("GET", path)).body.item.status === "success",
      );
    });
    await Promise.all(ends);
    assert.doesNotMatch(platform.output(), /"level":60/, "nothing was fatal");
  },
);

test(
  "a start on a full disk uses the room that was kept for it, else it says what may be deleted",
  { skip: noSmallDisk },
  async (t) => {
    const stage = await open(t);
    const { platform, filling } = stage;
    const reserve = join(platform.dataDir, "disk.reserve");
    await until("room is kept", () => existsSync(reserve));
    await platform.end("SIGKILL");
    fill(stage);
    await platform.restart();
    assert.equal(existsSync(reserve), false, "the room was given back");
    await platform.end("SIGTERM");
    fill(stage);
    await assert.rejects(platform.restart(), (error: Error) => {
      assert.match(error.message, /the platform ended with 1/);
      assert.match(error.message, /The disk of the data folder .* is full: \d+ MB of \d+ MB/);
      assert.match(
        error.message,
        /Safe to delete while the platform does not run: .*cache\/downloads/,
      );
      assert.match(error.message, /\d+ MB {2}.*\/postgres/);
      return true;
    });
    rmSync(filling);
    await platform.restart();
  },
);

test("a start on a read-only disk says so", { skip: noSmallDisk }, async (t) => {
  const { platform, disk } = await open(t);
  await platform.end("SIGTERM");
  execFileSync("mount", ["-o", "remount,ro", disk]);
  await assert.rejects(platform.restart(), /The disk of the data folder .* is read-only/);
  execFileSync("mount", ["-o", "remount,rw", disk]);
  await platform.restart();
});
