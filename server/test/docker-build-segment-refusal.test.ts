// Where a program is missing that keeps the steps of builds apart, the platform does not start with
// closed builds, and says with open ones what is not kept apart. With a real engine.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";
import { cleanLast, type WithAfter } from "#test/support/clean-last.ts";
import { emptyDatabase } from "#test/support/database.ts";
import { noEngine, openEngine } from "#test/support/docker-engine.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { templateName } from "#test/support/test-server.ts";
import { until } from "#test/support/until.ts";

const noNamespace =
  spawnSync("unshare", ["--mount", "mount", "-t", "tmpfs", "none", "/mnt"]).status === 0
    ? false
    : "this needs root and mount namespaces";
const noRules =
  spawnSync("nft", ["list", "tables"]).status === 0 ? false : "this needs root and nft";
const skip = (await noEngine()) || noNamespace || noRules;

const main = join(import.meta.dirname, "../src/main.ts");
/** Runs "$@" where the folder $2 has all but the program $3. */
const without = `export PATH="$1:$PATH"
mount --bind "$2" "$1"
mount -t tmpfs none "$2"
ln -s "$1"/* "$2"/
rm "$2/$3"
shift 3
exec "$@"`;

/** Starts the platform without the program, and returns what it prints. */
async function start(
  t: WithAfter,
  program: readonly [folder: string, name: string],
  builds: string,
) {
  const databaseUrl = await emptyDatabase(t, { template: templateName });
  const dataDir = temporaryFolder(t, "data");
  const script = ["--mount", "sh", "-ec", without, "sh", temporaryFolder(t, "all"), ...program];
  const child = spawn("unshare", [...script, process.execPath, main], {
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: process.env["PATH"],
      HOME: dataDir,
      SLIPWAY_PORT: "0",
      SLIPWAY_DATA_DIR: dataDir,
      SLIPWAY_DATABASE_URL: databaseUrl.reveal(),
      SLIPWAY_DRIVER: "docker",
      SLIPWAY_DOCKER_HOST: (await openEngine()).dockerHost,
      SLIPWAY_DOCKER_BUILD_NETWORK: builds,
    },
  });
  const ended = once(child, "exit");
  const state = { printed: "", hasEnded: false };
  void ended.then(() => (state.hasEnded = true));
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (state.printed += chunk.toString()));
  cleanLast(t, async () => {
    child.kill();
    await ended;
  });
  const isDecided = (): boolean => state.hasEnded || /^slipway ready /m.test(state.printed);
  await until("the platform starts or ends", isDecided, { deadlineMs: 90_000 });
  return state;
}

test("closed builds are refused where steps cannot be kept apart", { skip }, async (t) => {
  const noNft = await start(t, ["/usr/sbin", "nft"], "closed");
  assert.equal(noNft.hasEnded, true, noNft.printed);
  assert.match(
    noNft.printed,
    /SLIPWAY_DOCKER_BUILD_NETWORK is closed, but the firewall rules for it need root, the program nft, .* or set it to open\./,
  );
  const noNsenter = await start(t, ["/usr/bin", "nsenter"], "closed");
  assert.equal(noNsenter.hasEnded, true, noNsenter.printed);
  assert.match(
    noNsenter.printed,
    /SLIPWAY_DOCKER_BUILD_NETWORK is closed, but builds of different projects could read each other's unencrypted traffic \(there is no nsenter\)\. Fix that, or set it to open\./,
  );
});

test("open builds begin there, and the log says what is not kept apart", { skip }, async (t) => {
  const { printed, hasEnded } = await start(t, ["/usr/sbin", "nft"], "open");
  assert.equal(hasEnded, false, printed);
  assert.match(
    printed,
    /builds of different projects could read each other's unencrypted traffic \(isolating them needs root, nft, and an engine on this machine\)/,
  );
});
