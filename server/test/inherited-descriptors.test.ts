// What the platform was started with open (`exec 200<FILE; npm start`) is open in nothing that it
// starts. Real processes.
import assert from "node:assert/strict";
import { closeSync, mkdirSync, openSync, readdirSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { deploy } from "#test/support/examples.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { PlatformProcess } from "#test/support/platform-process.ts";

const isLinux = process.platform === "linux";
const app = `import os

def run():
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink("/proc/self/fd/" + name)
        except OSError:
            pass  # the one that the folder is read with
    return found
`;
const toml = `[cerebrium.deployment]
name = "open"
python_version = "3.11"
shell_commands = ["ls -l /proc/self/fd/ | sed 's/^/open: /'"]
`;

test(
  "files and folders that the platform was started with are open in no app, build or database",
  {
    skip: isLinux ? false : "descriptors are looked at in /proc, which only Linux has",
  },
  async (t) => {
    const git = await startGitServer(t);
    await git.createRepo("acme", "open", { "main.py": app, "slipway.toml": toml });
    const folder = temporaryFolder(t, "inherited");
    const secret = join(folder, "inherited-secret");
    writeFileSync(secret, "root's");
    const openFile = openSync(secret, "r");
    const openFolder = openSync(folder, "r");
    t.after(() => [openFile, openFolder].forEach((one) => closeSync(one)));
    mkdirSync(join(folder, "data"));
    const platform = new PlatformProcess(join(folder, "data"), {
      SLIPWAY_GIT_URL: git.urlTemplate,
      SLIPWAY_LOG_LEVEL: "debug",
    });
    t.after(() => platform.remove());
    await platform.restart({ inherited: { 200: openFile, 201: openFolder } });

    const deployed = await deploy(platform, { name: "open", gitRepo: "acme/open" });
    assert.equal(deployed.status, "success", deployed.log);
    const inBuild = deployed.log.split("\n").filter((line) => /open: .* -> /.test(line));
    // 3 is the folder that `ls` reads.
    assert.deepEqual(
      inBuild.map((line) => / (\d+) -> /.exec(line)?.[1]).sort(),
      ["0", "1", "2", "3"],
      deployed.log,
    );
    assert.match(inBuild.at(-1) ?? "", /3 -> \/proc\//);

    const { result } = (await (await platform.call("open", "run")).json()) as {
      result: Record<string, string>;
    };
    const files = Object.entries(result).filter(([, target]) => target.startsWith("/"));
    const known = files.map(([number, target]) => `${number} ${target.split("/").at(-1)}`).sort();
    assert.deepEqual(known, ["0 null", "1 stdout", "2 stderr"], JSON.stringify(result));
    assert.deepEqual(
      holders(folder, secret),
      [process.pid],
      "no program but this test has them open",
    );
    assert.match(
      platform.output(),
      /"descriptors":\[200,201.*closed files that the platform was started with/,
    );
  },
);

/** The processes of the machine that have one of the paths open. */
function holders(...paths: readonly string[]): number[] {
  const found = new Set<number>();
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      for (const descriptor of readdirSync(`/proc/${pid}/fd`)) {
        if (paths.includes(readlinkSync(`/proc/${pid}/fd/${descriptor}`))) found.add(Number(pid));
      }
    } catch {
      // It has ended, or belongs to somebody else.
    }
  }
  return [...found];
}
