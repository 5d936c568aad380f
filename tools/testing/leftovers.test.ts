// What a run of tests removes of the machine when it ends, and what it leaves to others; in a
// network namespace of its own.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";

/** The list of interfaces is that of the namespace in which it was mounted. */
const apart = ["--net", "--mount", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "sh"];
const isReady = spawnSync("unshare", [...apart, "nft", "list", "tables"]).status === 0;
const skip = isReady ? false : "this needs root and nft";

test(
  "rules are removed that nothing uses, and not those of another run's replicas and builds",
  { skip },
  () => {
    const script = `const { makeRunFolder } = await import(${JSON.stringify(join(import.meta.dirname, "leftovers.ts"))});
const { execFileSync } = await import("node:child_process");
const folder = makeRunFolder();
for (const link of ["slbaaaa0001", "slpt1x224"]) execFileSync("ip", ["link", "add", link, "type", "bridge"]);
const table = (name, link) => \`table inet slipway_\${name} {
  chain out { drop; }
  map egress { type ifname : verdict; elements = { "\${link}" : jump out } }
}
\`;
const input = table("aaaa", "gone1") + table("bbbb", "slpt1x224") + table("cccc", "gone2");
execFileSync("nft", ["-f", "-"], { input });
folder.remove();
process.stdout.write(execFileSync("nft", ["list", "tables"]));`;
    const node = [process.execPath, "--input-type=module", "-e", script];
    const run = spawnSync("unshare", [...apart, ...node], { encoding: "utf8" });
    assert.equal(run.status, 0, run.stderr);
    assert.equal(run.stdout, "table inet slipway_aaaa\ntable inet slipway_bbbb\n");
  },
);
