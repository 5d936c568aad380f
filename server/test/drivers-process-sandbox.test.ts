// What an app in the sandbox of the process driver can see and do: its own files, and nothing of
// the platform, of other apps or of whoever runs the platform.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import type { ReplicaSpec } from "#drivers/driver.ts";
import { processArtifact } from "#drivers/process/artifact.ts";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { Secret } from "#lib/secret.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { ProcessFixture, python } from "#test/support/process-fixture.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { until } from "#test/support/until.ts";

const sandbox = await detectSandbox(tmpdir());
const skip = sandbox.kind === "none" ? `this machine has no sandbox: ${sandbox.reason}` : false;
const skipRoot = process.getuid?.() === 0 ? skip : "only root may mount";
const live = new AbortController().signal;

type Told = { fixture: ProcessFixture; spec: ReplicaSpec; value: unknown };

/** Runs Python code as a custom app to its end; it sets `result`. */
async function runInside(
  t: TestContext,
  code: string,
  prepare: (fixture: ProcessFixture) => Readonly<Record<string, string>> = () => ({}),
): Promise<Told> {
  const fixture = new ProcessFixture({ sandbox });
  const environment = prepare(fixture);
  const driver = fixture.driver();
  const sink = new DriverSink();
  await driver.open(sink);
  t.after(async () => {
    await driver.close();
    await fixture.close();
  });
  const app = `import json, os, resource, subprocess\nresult = None\n${code}\nprint("RESULT " + json.dumps(result))\n`;
  const artifact = fixture.artifact({ "app.py": app, "data/kept.txt": "as built" });
  const spec = replicaSpec({
    artifact,
    runtime: "custom",
    entrypoint: ["python", "app.py"],
    environment,
  });
  await driver.start(spec, live);
  const line = await sink.line(spec.replicaId, "RESULT ");
  await sink.told("exited", spec.replicaId);
  return { fixture, spec, value: JSON.parse(line.slice("RESULT ".length)) };
}

test(
  "an app does not see the data folder, other apps, homes or other processes",
  { skip },
  async (t) => {
    const code = `
shown = {}
for name in ["SECRET_FILE", "OTHER_APP", "OTHER_REPLICA", "HOME_FOLDER", "PLATFORM"]:
    path = os.environ[name]
    shown[name] = os.path.exists(path)
shown["data folder"] = sorted(os.listdir(os.environ["DATA"]))
shown["processes"] = len([name for name in os.listdir("/proc") if name.isdigit()]) < 8
shown["builds"] = len(os.listdir(os.environ["DATA"] + "/builds"))
shown["run"] = os.path.exists("/run/dbus") or os.path.exists("/run/docker.sock") or os.path.exists("/var/lib")
result = shown`;
    const { value } = await runInside(t, code, (fixture) => {
      writeFileSync(join(fixture.dataDir, "secret.key"), "a secret");
      const other = processArtifact(fixture.artifact({ "main.py": "" })).appDir;
      mkdirSync(join(fixture.replicasDir, "other-1"), { recursive: true });
      const home =
        readdirSync(homedir()).find(
          (name) => name.startsWith(".") && !dirname(python).includes(name),
        ) ?? ".ssh";
      return {
        DATA: fixture.dataDir,
        SECRET_FILE: join(fixture.dataDir, "secret.key"),
        OTHER_APP: other,
        OTHER_REPLICA: join(fixture.replicasDir, "other-1"),
        HOME_FOLDER: join(homedir(), home),
        PLATFORM: import.meta.dirname,
      };
    });
    assert.deepEqual(value, {
      SECRET_FILE: false,
      OTHER_APP: false,
      OTHER_REPLICA: false,
      HOME_FOLDER: false,
      PLATFORM: false,
      "data folder": ["builds", "venv"],
      processes: true,
      builds: 1,
      run: false,
    });
  },
);

test(
  "an app has no rights: no capability, no way to gain one, no other user's files, nothing to unmount",
  { skip },
  async (t) => {
    const code = `
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
def fails(*command):
    return subprocess.run(command, capture_output=True).returncode != 0
def denied(path, mode):
    try:
        open(path, mode).close()
        return False
    except OSError:
        return True
result = {
    "capabilities": [status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "no new privileges": status["NoNewPrivs"].strip(),
    "bounded processes": 0 < resource.getrlimit(resource.RLIMIT_NPROC)[0] <= 16384,
    "shadow": denied("/etc/shadow", "r"),
    "system": denied("/usr/written", "w") and denied("/etc/written", "w"),
    "interpreter": denied(os.path.realpath(os.sys.executable), "r+b"),
    "environment": denied(os.environ["VIRTUAL_ENV"] + "/written", "w"),
    "unmount": fails("umount", "/tmp") and fails("umount", os.environ["HOME"]) and fails("mount", "-t", "tmpfs", "tmpfs", "/tmp"),
    "shell's variables": denied("/proc/1/environ", "r"),
}`;
    const { value } = await runInside(t, code);
    assert.deepEqual(value, {
      capabilities: Array.from({ length: 5 }, () => "0000000000000000"),
      "no new privileges": "1",
      "bounded processes": true,
      shadow: true,
      system: true,
      interpreter: true,
      environment: true,
      unmount: true,
      "shell's variables": true,
    });
  },
);

test(
  "an app writes beside its code, to /tmp, its home and its project's storage, and the build stays as it was",
  { skip },
  async (t) => {
    const code = `
written = []
for path in ["made.txt", "data/kept.txt", "/cortex/also.txt", "/tmp/t", os.environ["HOME"] + "/h", "/persistent-storage/stored.txt", "/dev/shm/s", "/var/tmp/v"]:
    with open(path, "a") as file:
        file.write("by the app")
    written.append(path)
import multiprocessing
with multiprocessing.Pool(2) as pool:
    squares = pool.map(abs, [-1, -2])
import traceback
__import__("pathlib").Path("made.py").write_text("1 / 0")
try:
    import made
except ZeroDivisionError:
    frame = [line.strip() for line in traceback.format_exc().splitlines() if "made.py" in line][0]
os.remove("made.py")
import shutil
shutil.rmtree("__pycache__", ignore_errors=True)
result = [len(written), sorted(os.listdir("/cortex")), open("data/kept.txt").read(), squares, os.getcwd(), frame, __import__("sys").executable, os.path.expanduser("~app"), os.ttyname(os.openpty()[1]) != ""]`;
    const { value, fixture, spec } = await runInside(t, code);
    assert.deepEqual(value, [
      8,
      ["also.txt", "app.py", "data", "made.txt"],
      "as builtby the app",
      [1, 2],
      "/cortex",
      'File "/cortex/made.py", line 1, in <module>',
      "/venv/bin/python",
      "/home/app",
      true,
    ]);
    const { appDir } = processArtifact(spec.artifact);
    assert.equal(readFileSync(join(appDir, "data/kept.txt"), "utf8"), "as built");
    assert.ok(!existsSync(join(appDir, "made.txt")));
    const stored = join(fixture.dataDir, "storage", spec.projectId, "stored.txt");
    assert.equal(readFileSync(stored, "utf8"), "by the app");
  },
);

test(
  "a variable of the app does nothing to the tools that make its sandbox",
  { skip },
  async (t) => {
    const { value, fixture, spec } = await runInside(
      t,
      'result = os.environ["LD_PRELOAD"]',
      () => ({
        LD_PRELOAD: "/no/such/library.so",
        PATH_BEFORE: "x",
      }),
    );
    assert.equal(value, "/no/such/library.so");
    const state = readFileSync(join(fixture.replicasDir, spec.replicaId, "state"), "utf8");
    assert.equal(state, "running\nexit 0\n");
  },
);

test(
  "a sandbox that cannot be made refuses the start, says why, and leaves nothing",
  { skip },
  async (t) => {
    assert.ok(sandbox.kind === "namespaces");
    const broken = {
      ...sandbox,
      systemFolders: [...sandbox.systemFolders, "/no-such-system-folder"],
    };
    const fixture = new ProcessFixture({ sandbox: broken });
    const driver = fixture.driver();
    await driver.open(new DriverSink());
    t.after(async () => {
      await driver.close();
      await fixture.close();
    });
    const spec = replicaSpec({
      artifact: fixture.artifact({}),
      environment: { SECRET: new Secret("tell-nobody") },
    });
    await assert.rejects(driver.start(spec, live), (error: Error) => {
      assert.match(error.message, /could not be started: .*no-such-system-folder/);
      assert.ok(!error.message.includes("tell-nobody"));
      return true;
    });
    assert.deepEqual(await fixture.remains(), []);
  },
);

test("folders that an app locked are removed with the replica", { skip }, async (t) => {
  const fixture = new ProcessFixture({ sandbox });
  const driver = fixture.driver();
  const sink = new DriverSink();
  await driver.open(sink);
  t.after(async () => {
    await driver.close();
    await fixture.close();
  });
  const script =
    "mkdir -p locked/inside && touch locked/inside/file && chmod 000 locked/inside locked";
  const spec = replicaSpec({
    artifact: fixture.artifact({}),
    runtime: "custom",
    entrypoint: ["sh", "-c", script],
  });
  await driver.start(spec, live);
  await sink.told("exited", spec.replicaId);
  await driver.forget(spec.replicaId);
  assert.deepEqual(await fixture.remains(), []);
});

test(
  "an app gets variables of every name that a secret may have, with any value",
  { skip },
  async (t) => {
    const given: Record<string, string> = {
      plain: "one",
      "with-dash": 'two "quoted" $HOME `x` \\n',
      "with.dot": "three\nlines\t# and 'more'",
      UID: "four",
      "0digit": "",
    };
    const code =
      "result = {name: value for name, value in os.environ.items() if name in " +
      JSON.stringify(Object.keys(given)) +
      " or 'carried' in name}";
    const { value } = await runInside(t, code, () => given);
    assert.deepEqual(value, given);
  },
);

test(
  "a folder that one app hands to another leads no further than what both see anyway",
  { skip },
  async (t) => {
    // In networks of their own they have no socket in common to hand it over.
    const network = { kind: "shared", reason: "as a test" } as const;
    const fixture = new ProcessFixture({
      sandbox: sandbox.kind === "none" ? sandbox : { ...sandbox, network },
    });
    const driver = fixture.driver();
    const sink = new DriverSink();
    await driver.open(sink);
    t.after(async () => {
      for (const { replicaId } of await driver.list()) await driver.stop(replicaId, { graceMs: 0 });
      await driver.close();
      await fixture.close();
    });
    const name = `\\0slipway-test-${process.pid}`;
    const common = `import array, json, os, socket\nunix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)\n`;
    const giver = `${common}unix.bind("${name}")
unix.listen(1)
print("listening", flush=True)
taker = unix.accept()[0]
root = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
taker.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [root]))])
taker.recv(1)`;
    const taker = `${common}unix.connect("${name}")
given = array.array("i", unix.recvmsg(1, socket.CMSG_SPACE(4))[1][0][2][:4])[0]
os.fchdir(given)
print("RESULT " + json.dumps([sorted(os.listdir("../" * ups)) for ups in range(1, 12)]), flush=True)
for name in os.listdir("../"):
    if name.startswith("enter-"):
        try:
            print("ENTER", open("../" + name).read(), flush=True)
        except OSError as error:
            print("ENTER", type(error).__name__, flush=True)`;
    const start = async (code: string, projectId: string): Promise<ReplicaSpec> => {
      const artifact = fixture.artifact({ "app.py": code });
      const made = replicaSpec({ artifact, runtime: "custom", entrypoint: ["python", "app.py"] });
      const spec = {
        ...made,
        projectId: projectId as ReplicaSpec["projectId"],
        storage: projectId,
      };
      await driver.start(spec, live);
      return spec;
    };
    const one = await start(giver, "p-0000000a");
    await sink.line(one.replicaId, "listening");
    const other = await start(taker, "p-0000000b");
    const line = await sink.line(other.replicaId, "RESULT ");
    const seen = JSON.parse(line.slice("RESULT ".length)) as string[][];
    assert.ok(sandbox.kind === "namespaces");
    const tops = new Set(sandbox.systemFolders.map((folder) => folder.split("/")[1] ?? ""));
    // What lets the platform run commands in it is there too; who may read it can see the app's
    // variables.
    const enter = `enter-${one.replicaId}`;
    for (const names of seen) assert.deepEqual(names, [...tops, enter, "proc", "view"].sort());
    // Without root all apps are of one user.
    if (process.getuid?.() === 0) {
      assert.equal(await sink.line(other.replicaId, "ENTER "), "ENTER PermissionError");
    }
  },
);

test(
  "a prepared sandbox shows what the machine mounts after it was made, and keeps nothing of it in use",
  { skip: skipRoot },
  async (t) => {
    const fixture = new ProcessFixture({ sandbox });
    const driver = fixture.driver();
    const sink = new DriverSink();
    await driver.open(sink);
    const code = `import os\nprint("RESULT", os.path.ismount("/persistent-storage"), os.listdir("/persistent-storage"), flush=True)`;
    const artifact = fixture.artifact({ "app.py": code });
    const run = async (): Promise<string> => {
      const spec = replicaSpec({ artifact, runtime: "custom", entrypoint: ["python", "app.py"] });
      await driver.start(spec, live);
      return await sink.line(spec.replicaId, "RESULT");
    };
    const storage = join(fixture.dataDir, "storage", "p-0123abcd");
    const mounted = (): boolean =>
      readFileSync("/proc/self/mountinfo", "utf8").includes(storage.replaceAll(" ", "\\040"));
    t.after(async () => {
      if (mounted()) execFileSync("umount", [storage]);
      await driver.close();
      await fixture.close();
    });
    await run();
    const waiting = (): string[] =>
      fixture.processes().filter((line) => / sh -s /.test(line) && !line.includes("unshare"));
    await until("sandboxes are prepared", () => waiting().length >= 2);
    execFileSync("mount", ["-t", "tmpfs", "tmpfs", storage]);
    writeFileSync(join(storage, "on-new-disk"), "");
    assert.match(await run(), /'on-new-disk'/);
    await until("sandboxes are prepared again", () => waiting().length >= 2);
    // One that is prepared meanwhile shows the machine as it is then, and stays.
    const showing = waiting();
    execFileSync("umount", [storage]);
    const isThere = (line: string): boolean => showing.includes(line);
    await until("those that show it are ended", () => !waiting().some(isThere));
    assert.doesNotMatch(await run(), /'on-new-disk'/);
  },
);
