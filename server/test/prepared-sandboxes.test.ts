// Sandboxes that were prepared before they were needed serve one app after another: the next finds
// nothing that an earlier one has left wherever it could, although it ran while the sandbox was
// already there.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { test } from "node:test";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import type { ProjectId } from "#lib/ids.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { ProcessFixture } from "#test/support/process-fixture.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { until } from "#test/support/until.ts";

const sandbox = await detectSandbox(tmpdir());
const skip = sandbox.kind === "none" ? sandbox.reason : false;
const live = new AbortController().signal;
const mark = "LEFT-BEHIND-4471";

/**
 * Leaves the mark in all folders, in shared memory, at sockets and in a process that outlives its
 * parent.
 */
const leaves = `import ctypes, os, socket, sys, time
left = []
for folder, folders, files in os.walk("/"):
    if folder.startswith(("/proc", "/sys")):
        folders[:] = []
    elif not folder.startswith("/persistent-storage"):
        try:
            with open(folder + "/${mark}", "w") as file:
                file.write("${mark}")
            left.append(folder)
        except OSError:
            pass
libc = ctypes.CDLL(None)
if libc.shmget(0x4471, 4096, 0o1666) >= 0: left.append("shared memory")
named = socket.socket(socket.AF_UNIX)
named.bind("\\0${mark}")
named.listen()
port = socket.create_server(("0.0.0.0", 14471))
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
print("LEFT", left, flush=True)
time.sleep(600)`;

const looks = `import os, socket
found = []
for folder, folders, files in os.walk("/"):
    if folder.startswith("/proc") or folder.startswith("/sys"):
        folders[:] = []
    elif "${mark}" in files:
        found.append(folder)
if "17521 " in open("/proc/sysvipc/shm").read(): found.append("shared memory")
for family, address in ((socket.AF_UNIX, "\\0${mark}"), (socket.AF_INET, ("127.0.0.1", 14471))):
    try:
        socket.socket(family).connect(address)
        found.append(str(address))
    except OSError:
        pass
for pid in os.listdir("/proc"):
    if pid.isdigit():
        for name in ("cmdline", "environ"):
            try:
                if b"SECRET-OF-THE-FIRST" in open(f"/proc/{pid}/{name}", "rb").read():
                    found.append(f"{name} of {pid}")
            except OSError:
                pass
paths = ["/proc/self/fd/" + fd for fd in os.listdir("/proc/self/fd") if int(fd) > 2]
links = [os.readlink(path) for path in paths if os.path.lexists(path)]
print("FOUND", found, [link for link in links if "replicas" in link], flush=True)`;

for (const isEnded of [false, true]) {
  const when = isEnded ? "after it has ended" : "while it runs";
  test(
    `an app in a prepared sandbox finds nothing of another project's app, ${when}`,
    { skip },
    async (t) => {
      const fixture = new ProcessFixture({ sandbox });
      const driver = fixture.driver();
      const sink = new DriverSink();
      await driver.open(sink);
      t.after(async () => {
        for (const { replicaId } of await driver.list())
          await driver.stop(replicaId, { graceMs: 0 });
        await driver.close();
        await fixture.close();
      });
      const run = async (
        code: string,
        project: string,
        word: string,
      ): Promise<[string, string]> => {
        const artifact = fixture.artifact({ "app.py": code });
        const common = { artifact, runtime: "custom", entrypoint: ["python", "app.py"] } as const;
        const environment: Record<string, string> =
          word === "LEFT" ? { KEY: "SECRET-OF-THE-FIRST" } : {};
        const spec = replicaSpec({ ...common, projectId: project as ProjectId, environment });
        await driver.start(spec, live);
        return [await sink.line(spec.replicaId, word), spec.replicaId];
      };
      const waiting = (): number =>
        fixture.processes().filter((line) => / sh -s /.test(line)).length;
      // It is given up where it takes too long on a busy machine; the next start begins it again.
      const prepared = async (): Promise<void> => {
        for (let starts = 0; waiting() < 2; starts++) {
          assert.ok(starts < 5, "sandboxes are prepared");
          if (starts > 0) await run(looks, "p-00000004", "FOUND");
          await until("there are two", () => waiting() >= 2).catch(() => undefined);
        }
      };
      const both = `${leaves.replace(/time\.sleep\(600\)$/, "")}\n${looks}`;
      const [seen] = await run(both, "p-00000001", "FOUND");
      for (const trace of ["/tmp", "shared memory", "14471", mark])
        assert.ok(seen.includes(trace), seen);
      await prepared();
      const [left, first] = await run(leaves, "p-00000002", "LEFT");
      assert.match(left, /\/tmp'/, "it could leave something");
      assert.match(left, /shared memory/);
      if (isEnded) await driver.stop(first as never, { graceMs: 0 });
      await prepared();
      for (let count = 0; count < 2; count++) {
        assert.equal((await run(looks, "p-00000003", "FOUND"))[0], "FOUND [] []");
      }
    },
  );
}
