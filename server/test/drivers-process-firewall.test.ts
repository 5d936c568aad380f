// What the platform does to the firewall of a machine for networks of replicas; on a machine of its
// own: an empty network namespace, whose firewall and settings are its own.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";

const isReady = spawnSync("sh", ["-c", "unshare --net nft list tables"]).status === 0;
const skip = isReady ? false : "this needs root and nft";
const drivers = join(import.meta.dirname, "../src/drivers");

/**
 * Runs statements with the functions of the module in a new network namespace, and gives what they
 * print as JSON.
 */
function onNewMachine(setUp: string, statements: string): unknown {
  const script = `const m = await import(${JSON.stringify(join(drivers, "process/network-machine.ts"))});
const f = await import(${JSON.stringify(join(drivers, "app-firewall-machine.ts"))});
const { execFileSync } = await import("node:child_process");
const { readFileSync } = await import("node:fs");
const nft = (...words) => execFileSync("nft", words, { encoding: "utf8" });
const wish = { folder: "/data", mode: "auto", allowed: [], nameServers: ["192.0.2.53"] };
const print = (value) => console.log(JSON.stringify(value));
${statements}`;
  const node = [process.execPath, "--input-type=module", "-e", script];
  const run = spawnSync("unshare", ["--net", "sh", "-c", `${setUp}\nexec "$@"`, "sh", ...node], {
    encoding: "utf8",
  });
  assert.equal(run.status, 0, run.stderr);
  return JSON.parse(run.stdout);
}

const dropping =
  "nft add table ip filter && nft 'add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }'";

test("a firewall that drops what is forwarded lets replicas pass, once", { skip }, () => {
  const chain = onNewMachine(
    dropping,
    `const attempt = () => Promise.resolve(null);
const network = await m.detectNetwork(wish, attempt);
await m.detectNetwork(wish, attempt);
print([network.kind, readFileSync("/proc/sys/net/ipv4/ip_forward", "utf8").trim(), nft("list", "chain", "ip", "filter", "FORWARD")]);`,
  ) as [string, string, string];
  assert.deepEqual(chain.slice(0, 2), ["own", "1"]);
  assert.deepEqual(
    chain[2]
      .split("\n")
      .filter((line) => line.includes("accept"))
      .map((line) => line.trim()),
    ['oifname "slp*" ct state established,related accept', 'iifname "slp*" accept'],
  );
});

test("rules that somebody else has flushed are put in force again", { skip }, () => {
  const seen = onNewMachine(
    ":",
    `const network = await m.detectNetwork(wish, () => Promise.resolve(null));
const kept = [await f.keepFirewall(network), await f.keepFirewall(network)];
nft("flush", "ruleset");
kept.push(await f.keepFirewall(network), await f.keepFirewall(network));
const rules = nft("list", "table", "inet", "slipway_" + network.installation);
await f.removeFirewall(network);
print([kept, rules.includes("masquerade"), nft("list", "tables")]);`,
  );
  assert.deepEqual(seen, [[false, true, false, true], true, ""]);
});

test("rules of a platform that had not closed builds are replaced before a build", { skip }, () => {
  const seen = onNewMachine(
    ":",
    `const open = await m.detectNetwork(wish, () => Promise.resolve(null));
const closed = { ...open, buildBridge: "docker0" };
await f.keepFirewall(open);
const kept = [await f.keepFirewall(closed), await f.keepFirewall(closed), await f.keepFirewall(open)];
print([kept, nft("list", "map", "inet", "slipway_" + open.installation, "egress").includes("docker0")]);`,
  );
  assert.deepEqual(seen, [[false, true, true], true]);
});

test(
  "a program that is missing and a network that does not come about leave apps on the shared one, with the reason",
  { skip },
  () => {
    const reasons = onNewMachine(
      ":",
      `const failed = await m.detectNetwork(wish, () => Promise.resolve("RTNETLINK answers: Operation not permitted"));
const wanted = await m.detectNetwork({ ...wish, mode: "shared" }, () => Promise.resolve(null));
print([failed, wanted]);`,
    );
    assert.deepEqual(reasons, [
      { kind: "shared", reason: "RTNETLINK answers: Operation not permitted" },
      { kind: "shared", reason: "SLIPWAY_APP_NETWORK is shared" },
    ]);
  },
);
