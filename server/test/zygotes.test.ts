// Replicas that are forked from a zygote by the process driver, in real sandboxes: what they find
// and do not find, what outlives what, and what a hostile app gains.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import type { Address, Driver, ReplicaSpec, ZygoteReport, Zygotes } from "#drivers/driver.ts";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { newReplicaId, type ReplicaId } from "#lib/ids.ts";
import { Secret } from "#lib/secret.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { cortexRuntimeDir, ProcessFixture } from "#test/support/process-fixture.ts";
import { askAddress } from "#test/support/replica-address.ts";
import { endAll } from "#test/support/process-stage.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { until } from "#test/support/until.ts";

const sandbox = await detectSandbox(tmpdir());
const live = new AbortController().signal;
const tryRuntime = process.env["TRY_RUNTIME"] ?? cortexRuntimeDir;

function whySkipped(): string | false {
  if (sandbox.kind === "none") return sandbox.reason;
  return sandbox.isUserOwned || !sandbox.hasOverlays ? "zygotes need root and overlays" : false;
}

/** What the app of most tests says of its process and of its files. */
const lookAround = `
import os, random, tempfile

token = os.environ["TOKEN"]
imported_by = os.getpid()
folder = tempfile.mkdtemp()
with open(os.path.join(folder, "import.txt"), "w") as file:
    file.write("written at import")
with open(os.path.expanduser("~/home.txt"), "w") as file:
    file.write("written at import")

def look():
    status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
    return {
        "token": token,
        "isForked": os.getpid() != imported_by,
        "processes": [name for name in os.listdir("/proc") if name.isdigit()],
        "files": [open(path).read() for path in (folder + "/import.txt", os.path.expanduser("~/home.txt"))],
        "uid": os.getuid(),
        "folder": os.getcwd(),
        "random": random.random(),
        "rights": [status["CapEff"].strip(), status["CapPrm"].strip(), status["NoNewPrivs"].strip()],
        "name": os.environ["SLIPWAY_REPLICA_ID"] if "SLIPWAY_REPLICA_ID" in os.environ else None,
        "descriptors": sorted(os.readlink("/proc/self/fd/" + name) for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)),
    }

def write(path, text):
    with open(path, "w") as file:
        file.write(text)
    return sorted(os.listdir(os.path.dirname(path)))

def listing(path):
    return sorted(os.listdir(path))
`;

type Looked = {
  readonly token: string;
  readonly isForked: boolean;
  readonly processes: readonly string[];
  readonly files: readonly string[];
  readonly uid: number;
  readonly folder: string;
  readonly random: number;
  readonly rights: readonly string[];
  readonly name: string | null;
  readonly descriptors: readonly string[];
};

/** A driver with an app and, if it was made, its zygote. */
class Stage {
  readonly fixture = new ProcessFixture({ sandbox, runtimeDir: tryRuntime });
  readonly sink = new DriverSink();
  driver: Driver = this.fixture.driver();
  readonly #spec: ReplicaSpec;

  constructor(code: string) {
    const artifact = this.fixture.artifact({ "main.py": code });
    const environment = { TOKEN: new Secret("first") };
    this.#spec = { ...replicaSpec({ artifact, runtime: "cortex", entrypoint: [] }), environment };
  }

  static async open(t: TestContext, code = lookAround): Promise<Stage> {
    const stage = new Stage(code);
    await stage.driver.open(stage.sink);
    t.after(async () => {
      await endAll(stage.driver);
      await stage.driver.close();
      assert.deepEqual(await stage.fixture.remains(), []);
      assert.deepEqual(stage.zygoteFolders(), []);
      await stage.fixture.close();
    });
    return stage;
  }

  get zygotes(): Zygotes {
    const { zygotes } = this.driver;
    assert.ok(zygotes);
    return zygotes;
  }

  zygoteFolders(): readonly string[] {
    const folder = join(this.fixture.dataDir, "zygotes");
    return existsSync(folder) ? readdirSync(folder) : [];
  }

  spec(name = "replica", environment = this.#spec.environment): ReplicaSpec {
    return { ...this.#spec, replicaId: newReplicaId(name), environment };
  }

  prepare(): Promise<ZygoteReport> {
    return this.zygotes.prepare(this.spec("zygote"), live);
  }

  async start(spec = this.spec()): Promise<Address> {
    await this.driver.start(spec, live);
    const { address } = await this.sink.told("started", spec.replicaId);
    await until("it listens", () => "path" in address && existsSync(address.path));
    return address;
  }

  /** Starts with another process of the platform, which takes the replicas over. */
  async reopen(): Promise<void> {
    await this.driver.close();
    this.driver = this.fixture.driver();
    await this.driver.open(this.sink);
  }

  async end(replicaId: ReplicaId): Promise<void> {
    await this.driver.stop(replicaId, { graceMs: 5_000 });
    await this.driver.forget(replicaId);
  }
}

async function call<Result>(address: Address, name: string, input: object = {}): Promise<Result> {
  const { status, body } = await askAddress(address, {
    path: `/${name}`,
    method: "POST",
    body: JSON.stringify(input),
  });
  assert.equal(status, 200, body);
  return (JSON.parse(body) as { result: Result }).result;
}

describe("zygotes", { skip: whySkipped() }, () => {
  it("fork replicas that find what the import has written, and are alone", async (t) => {
    const stage = await Stage.open(t);
    assert.deepEqual(await stage.prepare(), { kind: "ready" });
    const one = await stage.start();
    const two = await stage.start();
    const first = await call<Looked>(one, "look");
    const second = await call<Looked>(two, "look");
    for (const looked of [first, second]) {
      assert.ok(looked.isForked);
      assert.equal(looked.token, "first");
      assert.deepEqual(looked.files, Array(2).fill("written at import"));
      assert.equal(looked.folder, "/cortex");
      assert.deepEqual(looked.rights, ["0000000000000000", "0000000000000000", "1"]);
      // The first process of the replica, and the app.
      assert.equal(looked.processes.length, 2);
      const foreign = looked.descriptors.filter((path) => path.includes("zygote"));
      assert.deepEqual(foreign, []);
    }
    assert.notEqual(first.random, second.random);
    assert.notEqual(first.uid, 0);
    for (const path of ["/tmp/own", "/home/app/own", "/cortex/own", "/dev/shm/own"]) {
      await call(one, "write", { path, text: "mine" });
      const names = await call<string[]>(two, "listing", { path: path.slice(0, -4) });
      assert.ok(!names.includes("own"), `${path} is seen by the other replica`);
    }
  });

  it("share the project's storage between replicas", async (t) => {
    const stage = await Stage.open(t);
    await stage.prepare();
    const one = await stage.start();
    const two = await stage.start();
    await call(one, "write", { path: "/persistent-storage/shared", text: "ours" });
    const path = "/persistent-storage";
    assert.ok((await call<string[]>(two, "listing", { path })).includes("shared"));
  });

  it("leave replicas running when they end, and when the platform is replaced", async (t) => {
    const stage = await Stage.open(t);
    await stage.prepare();
    const kept = stage.spec();
    const other = stage.spec();
    const address = await stage.start(kept);
    await stage.start(other);
    await stage.reopen();
    assert.deepEqual(stage.zygotes.list(), []);
    assert.equal((await stage.driver.list()).length, 2);
    assert.ok((await call<Looked>(address, "look")).isForked);
    const command = await stage.driver.exec(kept.replicaId, {
      command: ["sh", "-c", "test -f /tmp/*/import.txt && echo $TOKEN"],
      terminal: null,
    });
    command.stdin.end();
    const output = (await command.stdout.toArray()) as Buffer[];
    assert.equal(Buffer.concat(output).toString(), "first\n");
    assert.deepEqual(await command.ended, { exitCode: 0, message: null });
    await stage.end(other.replicaId);
    assert.ok((await call<Looked>(address, "look")).isForked);
    assert.equal(stage.zygoteFolders().length, 1);
    await stage.end(kept.replicaId);
    await until("the zygote's folder is removed", () => stage.zygoteFolders().length === 0);
  });

  it("are not used for other variables, nor once they have ended", async (t) => {
    const stage = await Stage.open(t);
    await stage.prepare();
    const changed = stage.spec("changed", { TOKEN: new Secret("second") });
    assert.equal(stage.zygotes.has(changed), false);
    const address = await stage.start(changed);
    const looked = await call<Looked>(address, "look");
    assert.deepEqual([looked.token, looked.isForked], ["second", false]);
    const [zygote] = stage.zygotes.list();
    assert.ok(zygote !== undefined && (zygote.memoryBytes ?? 0) > 1_000_000);
    stage.zygotes.end(zygote.id);
    assert.deepEqual(stage.zygotes.list(), []);
    assert.equal((await call<Looked>(await stage.start(), "look")).isForked, false);
  });

  it("are replaced by an ordinary start in the same call when they do not answer", async (t) => {
    // The app takes over the zygote's loop in its first start.
    const stage = await Stage.open(
      t,
      `${lookAround}
import socket
real = socket.socket.accept
def accept(self):
    if os.environ.get("SLIPWAY_BROKEN") is None: os._exit(3)
    return real(self)
if not os.path.exists("/persistent-storage/again"):
    open("/persistent-storage/again", "w").close()
    socket.socket.accept = accept
`,
    );
    await stage.prepare();
    const looked = await call<Looked>(await stage.start(), "look");
    assert.equal(looked.isForked, false);
    assert.deepEqual(stage.zygotes.list(), []);
  });

  it("say what stands against a fork, by name", async (t) => {
    const stage = await Stage.open(
      t,
      `${lookAround}
import threading, time
threading.Thread(target=time.sleep, args=(1000,), daemon=True, name="counter").start()
log = open("/tmp/app.log", "a")
`,
    );
    const report = await stage.prepare();
    assert.equal(report.kind, "refused");
    const text = report.kind === "refused" ? report.reasons.join("\n") : "";
    assert.match(text, /counter/);
    assert.match(text, /\/tmp\/app\.log/);
    assert.equal((await call<Looked>(await stage.start(), "look")).isForked, false);
  });

  it("are refused to an app that writes beside its code", async (t) => {
    const stage = await Stage.open(t, `${lookAround}\nopen("own.txt", "w").close()\n`);
    const report = await stage.prepare();
    assert.equal(report.kind, "refused");
    assert.match(report.kind === "refused" ? report.reasons.join() : "", /wrote "own\.txt"/);
  });

  it("are not made where a fork would hide the app's own storage", async (t) => {
    const stage = await Stage.open(t);
    const spec = { ...stage.spec("zygote"), storagePath: "/home/app/data" };
    const report = await stage.zygotes.prepare(spec, live);
    assert.equal(report.kind, "failed");
  });

  it("may not report without end", async (t) => {
    const stage = await Stage.open(t, `${lookAround}\nos.ftruncate(3, 1_000_000_000)\n`);
    assert.deepEqual(await stage.prepare(), {
      kind: "failed",
      reason: "its report is too long",
    });
  });

  it("tell that the import failed, or was given up", async (t) => {
    const failing = await Stage.open(t, "def run(): pass\nraise ValueError('no model')");
    const report = await failing.prepare();
    assert.equal(report.kind, "failed");
    assert.match(report.kind === "failed" ? report.reason : "", /ValueError: no model/);
    const slow = await Stage.open(t, "import time\ndef run(): pass\ntime.sleep(1000)");
    const abort = new AbortController();
    const prepared = slow.zygotes.prepare(slow.spec("zygote"), abort.signal);
    await until("it imports", () => slow.zygoteFolders().length === 1);
    abort.abort();
    assert.equal((await prepared).kind, "failed");
    await until("its folder is removed", () => slow.zygoteFolders().length === 0);
  });

  it("give a hostile app no right that other apps do not have", async (t) => {
    const stage = await Stage.open(t, hostile);
    assert.deepEqual(await stage.prepare(), { kind: "ready" });
    const { zygote, replica } = await call<Record<"zygote" | "replica", Record<string, string>>>(
      await stage.start(),
      "tell",
    );
    for (const [name, outcome] of [...Object.entries(zygote), ...Object.entries(replica)])
      assert.match(outcome, /^(EPERM|ENOSYS|EACCES)$/, `${name}: ${outcome}`);
    assert.equal(Object.keys(zygote).length, Object.keys(replica).length);
  });
});

/** Tries in the zygote, during the import, and in a replica what needs rights. */
const hostile = `
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
machine = os.uname().machine
numbers = {
    "x86_64": {"mount": 165, "umount2": 166, "pivot_root": 155, "setns": 308, "unshare": 272, "clone": 56,
        "open_by_handle_at": 304, "fanotify_init": 300, "bpf": 321, "perf_event_open": 298, "quotactl": 179},
    "aarch64": {"mount": 40, "umount2": 39, "pivot_root": 41, "setns": 268, "unshare": 97, "clone": 220,
        "open_by_handle_at": 265, "fanotify_init": 262, "bpf": 280, "perf_event_open": 241, "quotactl": 60},
}[machine]

def attempt(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result == 0 and number == numbers["clone"]:
        os._exit(0)
    return "done" if result >= 0 else errno.errorcode[ctypes.get_errno()]

def attempts():
    namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    try:
        return attempts_with(namespace)
    finally:
        os.close(namespace)

def attempts_with(namespace):
    return {
        "mount": attempt(numbers["mount"], b"none", b"/tmp", b"tmpfs", 0, 0),
        "remount": attempt(numbers["mount"], b"none", b"/usr", b"", 32 | 4096, 0),
        "umount": attempt(numbers["umount2"], b"/tmp", 2),
        "pivot_root": attempt(numbers["pivot_root"], b".", b"."),
        "setns": attempt(numbers["setns"], namespace, 0),
        "unshare a mount namespace": attempt(numbers["unshare"], 0x20000),
        "unshare a user namespace": attempt(numbers["unshare"], 0x10000000),
        "clone into a user namespace": attempt(numbers["clone"], 0x10000000 | 17, 0, 0, 0, 0),
        "clone3": attempt(435, ctypes.byref(ctypes.create_string_buffer(88)), 88),
        "open_tree": attempt(428, -100, b"/usr", 1),
        "fsopen": attempt(430, b"tmpfs", 0),
        "move_mount": attempt(429, -100, b"/usr", -100, b"/tmp", 0),
        "mount_setattr": attempt(442, -100, b"/usr", 0, ctypes.byref(ctypes.create_string_buffer(32)), 32),
        "open_by_handle_at": attempt(numbers["open_by_handle_at"], 0, ctypes.byref(ctypes.create_string_buffer(64)), 0),
        "fanotify": attempt(numbers["fanotify_init"], 0, 0),
        "bpf": attempt(numbers["bpf"], 0, 0, 0),
        "perf_event_open": attempt(numbers["perf_event_open"], 0, 0, 0, 0, 0),
        "quotactl": attempt(numbers["quotactl"], 0, 0, 0, 0),
        "chroot": "done" if libc.chroot(b"/tmp") == 0 else errno.errorcode[ctypes.get_errno()],
        "sethostname": "done" if libc.sethostname(b"x", 1) == 0 else errno.errorcode[ctypes.get_errno()],
        "become root": "done" if libc.setuid(0) == 0 else errno.errorcode[ctypes.get_errno()],
    }


zygote = attempts()

def tell():
    return {"zygote": zygote, "replica": attempts()}
`;
