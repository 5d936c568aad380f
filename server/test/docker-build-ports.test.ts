// Steps of builds that get their networks at the same time are all heard: with real network
// namespaces, and no engine.
import "#test/support/leftovers.ts";
import { execFile, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { promisify } from "node:util";
import { BuildSegment, type BuildSegmentOptions } from "#drivers/docker/build-segment.ts";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { cleanLast } from "#test/support/clean-last.ts";
import { until } from "#test/support/until.ts";

const tables = spawnSync("nft", ["list", "tables"]);
const skip =
  tables.status === 0 && spawnSync("nsenter", ["--version"]).status === 0
    ? false
    : "this needs root, nft and nsenter";
const steps = 60;

const run = promisify(execFile);

/**
 * As the engine does it: the port is at the bridge first, then its card gets its MAC, then its
 * address.
 */
async function addStep(bridge: string, number: number): Promise<void> {
  const space = `${bridge}-${number}`;
  const port = `${bridge}p${number}`;
  const card = `${bridge}c${number}`;
  await run("ip", ["netns", "add", space]);
  await run("sh", [
    "-ec",
    `ip link add ${port} master ${bridge} type veth peer name ${card} netns ${space}
    printf 'link set ${card} address ${macOf(number)}\naddress add ${addressOf(number)}/24 dev ${card}\n' |
      ip -netns ${space} -batch -`,
  ]);
}

function addressOf(number: number): string {
  return `198.18.77.${number}`;
}

function macOf(number: number): string {
  return `02:42:c6:12:4d:${number.toString(16).padStart(2, "0")}`;
}

test("steps that begin at the same time are all heard", { skip }, async (t) => {
  const name = `st${randomBytes(3).toString("hex")}`;
  const numbers = Array.from({ length: steps }, (_, index) => index + 1);
  const inspect = {
    Options: { "com.docker.network.bridge.name": name },
    IPAM: { Config: [{ Subnet: "198.18.77.0/24" }] },
    Containers: {},
  };
  const engine = { calls: { getNetwork: () => ({ inspect: () => Promise.resolve(inspect) }) } };
  const segment = new BuildSegment({
    engine: engine as unknown as BuildSegmentOptions["engine"],
    installation: name,
    clock: systemClock,
    log: silentLog,
  });
  cleanLast(t, () => {
    for (const number of numbers) spawnSync("ip", ["netns", "delete", `${name}-${number}`]);
    spawnSync("ip", ["link", "delete", name]);
  });
  await run("ip", ["link", "add", name, "type", "bridge"]);
  // The platform goes on looking for what is at this one.
  await run("ip", [
    "link",
    "add",
    `${name}a`,
    "master",
    name,
    "type",
    "veth",
    "peer",
    "name",
    `${name}b`,
  ]);
  const leave = await segment.enter();
  try {
    const waiting = [...numbers];
    const addAll = async (): Promise<void> => {
      for (let number = waiting.pop(); number !== undefined; number = waiting.pop())
        await addStep(name, number);
    };
    await Promise.all([addAll(), addAll(), addAll()]);
    const heard = (): number => {
      const shown = spawnSync("nft", ["list", "set", "bridge", `slipway_${name}`, "bound"], {
        encoding: "utf8",
      });
      return numbers.filter((number) =>
        shown.stdout.includes(`${macOf(number)} . ${addressOf(number)} `),
      ).length;
    };
    await until("all steps are heard", () => heard() === steps);
  } finally {
    await leave();
  }
});
