// What the rules for steps of builds let pass: all steps that begin at once are heard, by IPv4
// alone, and the rules end by themselves. With real network namespaces, and no engine.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { promisify } from "node:util";
import { runMachineTool } from "#drivers/app-firewall-machine.ts";
import { sameFiles } from "#drivers/docker/own-container.ts";
import { segmentRules } from "#drivers/docker/build-segment-rules.ts";
import { BuildSegment, type BuildSegmentOptions } from "#drivers/docker/build-segment.ts";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { cleanLast, type WithAfter } from "#test/support/clean-last.ts";
import { until } from "#test/support/until.ts";

const tables = spawnSync("nft", ["list", "tables"]);
const skip =
  tables.status === 0 && spawnSync("nsenter", ["--version"]).status === 0
    ? false
    : "this needs root, nft and nsenter";
const ipv6Setting = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
const hasIPv6 = existsSync(ipv6Setting) && readFileSync(ipv6Setting, "utf8").trim() === "0";
const skipWithoutIPv6 = skip || (hasIPv6 ? false : "this needs IPv6");
const steps = 60;
const machine4 = "198.18.77.254";
const machine6 = "fd00:77::fe";

const run = promisify(execFile);

/** A bridge of the machine with nothing but a port whose other end has no address. */
async function openBridge(t: WithAfter, clock = systemClock) {
  const name = `st${randomBytes(3).toString("hex")}`;
  const inspect = {
    Options: { "com.docker.network.bridge.name": name },
    IPAM: { Config: [{ Subnet: "198.18.77.0/24" }] },
    Containers: {},
  };
  const engine = { calls: { getNetwork: () => ({ inspect: () => Promise.resolve(inspect) }) } };
  const segment = new BuildSegment({
    engine: engine as unknown as BuildSegmentOptions["engine"],
    machine: sameFiles,
    installation: name,
    clock,
    log: silentLog,
  });
  const table = `slipway_${name}`;
  cleanLast(t, () => {
    for (let number = 1; number <= steps; number++)
      spawnSync("ip", ["netns", "delete", `${name}-${number}`]);
    for (const link of [`${name}a`, name]) spawnSync("ip", ["link", "delete", link]);
    spawnSync("nft", ["delete", "table", "bridge", table]);
  });
  // The platform goes on looking for what is at the port.
  await run("sh", [
    "-ec",
    `ip link add ${name} type bridge
    ip address add ${machine4}/24 dev ${name}
    ip link set ${name} up
    ip link add ${name}a master ${name} type veth peer name ${name}b`,
  ]);
  return { name, table, segment };
}

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

/** Gives it and the machine an address of IPv6, too, and lets it speak. */
async function switchOn(bridge: string, number: number): Promise<void> {
  const card = `${bridge}c${number}`;
  const on = `link set lo up
    address add ${address6Of(number)}/64 dev ${card} nodad
    link set ${card} up`;
  const space = `${bridge}-${number}`;
  const command = `printf '${on}\n' | ip -netns ${space} -batch -
    ip -6 address replace ${machine6}/64 dev ${bridge} nodad
    ip link set ${bridge}p${number} up`;
  await run("sh", ["-ec", command]);
}

/** Whether a packet gets from the namespace to the address and back: nobody listens there. */
async function reaches(space: string, address: string): Promise<boolean> {
  const attempt = `exec timeout 2 bash -c ': </dev/tcp/${address}/9'`;
  return await run("ip", ["netns", "exec", space, "sh", "-c", attempt]).then(
    () => true,
    ({ stderr }: { stderr: string }) => stderr.includes("Connection refused"),
  );
}

function addressOf(number: number): string {
  return `198.18.77.${number}`;
}

function address6Of(number: number): string {
  return `fd00:77::${number}`;
}

function macOf(number: number): string {
  return `02:42:c6:12:4d:${number.toString(16).padStart(2, "0")}`;
}

/** What is in the sets of the table now. */
function elementsOf(table: string): { timeout: number; expires: number }[] {
  const { stdout } = spawnSync("nft", ["-j", "list", "table", "bridge", table]);
  const { nftables } = JSON.parse(stdout.toString()) as {
    nftables: { set?: { elem?: { elem: { timeout: number; expires: number } }[] } }[];
  };
  return nftables.flatMap(({ set }) => (set?.elem ?? []).map(({ elem }) => elem));
}

function isHeard(table: string, number: number): boolean {
  const { stdout } = spawnSync("nft", ["list", "set", "bridge", table, "bound"]);
  return stdout.toString().includes(`${macOf(number)} . ${addressOf(number)} `);
}

test("steps that begin at the same time are all heard", { skip }, async (t) => {
  const { name, table, segment } = await openBridge(t);
  const numbers = Array.from({ length: steps }, (_, index) => index + 1);
  const leave = await segment.enter();
  try {
    const waiting = [...numbers];
    const addAll = async (): Promise<void> => {
      for (let number = waiting.pop(); number !== undefined; number = waiting.pop())
        await addStep(name, number);
    };
    await Promise.all([addAll(), addAll(), addAll()]);
    await until("all steps are heard", () => numbers.every((number) => isHeard(table, number)));
  } finally {
    await leave();
  }
});

test(
  "steps have IPv4 alone, also where the bridge has IPv6, and others keep both",
  { skip: skipWithoutIPv6 },
  async (t) => {
    const { name, table, segment } = await openBridge(t);
    const others = [1, 2];
    for (const number of others) await addStep(name, number);
    for (const number of others) await switchOn(name, number);
    const leave = await segment.enter();
    try {
      const own = [3, 4];
      for (const number of own) await addStep(name, number);
      for (const number of own) await switchOn(name, number);
      await until("the steps are heard", () => own.every((number) => isHeard(table, number)));
      await until("a step reaches the machine", () => reaches(`${name}-3`, machine4));
      for (const address of [machine4, machine6, addressOf(2), address6Of(2)])
        await until(`others reach ${address}`, () => reaches(`${name}-1`, address));
      const attempts = [
        [3, machine6],
        [3, addressOf(4)],
        [3, address6Of(4)],
        [3, address6Of(1)],
        [1, address6Of(3)],
      ] as const;
      const results = await Promise.all(
        attempts.map(([from, address]) => reaches(`${name}-${from}`, address)),
      );
      assert.deepEqual(
        attempts.filter((_, index) => results[index]),
        [],
        "what was reached",
      );
    } finally {
      await leave();
    }
  },
);

/** Prints how many of the frames to a card that is nowhere reach each of two ports. */
const countFrames = `
import select, socket, sys
other, unknown, address = sys.argv[1:]
ends = {name: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) for name in (other, unknown)}
for name, end in ends.items(): end.bind((name, 0))
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
seen = dict.fromkeys(ends, 0)
for _ in range(20): sender.sendto(b"FOR-ANOTHER-STEP", (address, 9))
while readable := select.select(list(ends.values()), [], [], 2)[0]:
    for name, end in ends.items():
        if end in readable: seen[name] += b"FOR-ANOTHER-STEP" in end.recv(2000)
print(*seen.values())
`;

test("a port hears nothing before it is known", { skip }, async (t) => {
  const { name, table, segment } = await openBridge(t);
  const leave = await segment.enter();
  try {
    await run("sh", [
      "-ec",
      `ip link add ${name}x master ${name} type veth peer name ${name}y
      for link in a b x y; do ip link set ${name}$link up; done
      ip neigh replace ${addressOf(9)} lladdr ${macOf(9)} dev ${name} nud permanent`,
    ]);
    await until("the ports are in use", async () => {
      const { stdout } = await run("ip", ["-oneline", "link", "show", "master", name]);
      return stdout.match(/state UP/g)?.length === 2;
    });
    assert.match((await run("nft", ["list", "set", "bridge", table, "others"])).stdout, /"st.*a"/);
    const words = ["-c", countFrames, `${name}b`, `${name}y`, addressOf(9)];
    assert.equal((await run("python3", words)).stdout.trim(), "20 0");
  } finally {
    await leave();
    await run("ip", ["link", "delete", `${name}x`]);
  }
});

test(
  "what the rules name is forgotten after a minute unless it is renewed",
  { skip },
  async (t) => {
    let aheadMs = 0;
    const monotonicMs = (): number => systemClock.monotonicMs() + aheadMs;
    const { name, table, segment } = await openBridge(t, { ...systemClock, monotonicMs });
    const leave = await segment.enter();
    try {
      await addStep(name, 1);
      await until("the step is heard", () => isHeard(table, 1));
      const elements = elementsOf(table);
      // The range, a port of others, and the step in five sets.
      assert.equal(elements.length, 7);
      assert.deepEqual([...new Set(elements.map(({ timeout }) => timeout))], [60]);
      await run("nft", ["flush", "set", "bridge", table, "bound"]);
      aheadMs = 20_000;
      await until("a platform that goes on renews them", () => isHeard(table, 1));
    } finally {
      await leave();
    }
  },
);

test(
  "rules that a killed platform has left end by themselves",
  { skip: skipWithoutIPv6 },
  async (t) => {
    const { name, table } = await openBridge(t);
    const numbers = [1, 2];
    for (const number of numbers) await addStep(name, number);
    for (const number of numbers) await switchOn(name, number);
    const port = { name: `${name}p1`, mac: macOf(1), addresses: [addressOf(1)] };
    const facts = { table, ranges: ["198.18.77.0/24"], steps: [port], others: [] };
    const left = segmentRules(facts);
    assert.equal(await runMachineTool(["nft", "-f", "-"], { input: left }), null);
    assert.equal(await reaches(`${name}-2`, machine4), false, "the rules are in force");
    // As they would be almost a minute later.
    const late = left.replaceAll("timeout 60s", "timeout 1s");
    assert.equal(await runMachineTool(["nft", "-f", "-"], { input: late }), null);
    await until("they name nothing", () => elementsOf(table).length === 0);
    for (const address of [machine4, machine6, addressOf(2), address6Of(2)])
      await until(`${address} is reached`, () => reaches(`${name}-1`, address));
  },
);
