// How replicas of the process driver end: what their owner is told of an exit, and who is asked to
// end when one is stopped.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { chmodSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import type { Sandbox } from "#drivers/process/sandbox.ts";
import { drawCases } from "#test/support/drawn-cases.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { openProcessStage as stage } from "#test/support/process-stage.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";

const live = new AbortController().signal;
const graceMs = 20_000;
const detected = await detectSandbox(tmpdir());
const none: Sandbox = { kind: "none", reason: "as a test" };

const sandboxes = detected.kind === "none" ? [none] : [detected, none];

const reasons: readonly [string, string[], RegExp][] = [
  [
    "an exit code and the error that was printed",
    ["python", "-c", "import no_such_module"],
    /^The app ended with exit code 1: ModuleNotFoundError: No module named 'no_such_module'\. Add its package /,
  ],
  [
    "a signal",
    ["python", "-c", "import os; os.kill(os.getpid(), 11)"],
    /^The app was ended by SIGSEGV\.$/,
  ],
  [
    "a kill from elsewhere",
    ["python", "-c", "import os; os.kill(os.getpid(), 9)"],
    /^The app was killed \(SIGKILL\), but not by the platform\.$/,
  ],
  [
    "a start command that is not there",
    ["no-such-program"],
    /^The start command was not found: no-such-program\. Correct the entrypoint/,
  ],
  [
    "a program that a shell did not find",
    ["sh", "-c", "no-such-program --port 8000"],
    /^The start command ended with exit code 127: the program no-such-program, which it runs, was not found\./,
  ],
  [
    "a script with line endings of Windows",
    ["./crlf.sh"],
    /^\.\/crlf\.sh has line endings of Windows \(CRLF\)/,
  ],
  [
    "a script whose interpreter is missing",
    ["sh", "-c", "exec ./nowhere.sh"],
    /^The first line of \.\/nowhere\.sh asks for the program \/opt\/nowhere\/sh, which was not found\./,
  ],
  [
    "a link out of the app's folder, of which nothing is read",
    ["./outside.sh"],
    /^The start command was not found: \.\/outside\.sh\./,
  ],
  [
    "an end by itself",
    ["true"],
    /^The app exited on its own \(exit code 0\); its start command must keep running/,
  ],
];
const server = `import signal, sys, time
def end(*_):
    print("ending", flush=True)
    time.sleep(0.3)
    print("ended", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("up", flush=True)
while True:
    signal.pause()
`;
const wrapper = `import subprocess, sys
subprocess.run([sys.executable, "app.py"])`;
const manager = `import signal, subprocess, sys
child = subprocess.Popen([sys.executable, "app.py"])
def end(*_):
    child.send_signal(signal.SIGTERM)
    child.wait()
    print("manager ended", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
while True:
    signal.pause()`;
const cases: readonly [string, string[], string[]][] = [
  ["behind a shell", ["sh", "-c", "python app.py; exit $?"], ["ending", "ended"]],
  ["behind a script", ["bash", "start.sh"], ["ending", "ended"]],
  ["behind another program", ["python", "wrapper.py"], ["ending", "ended"]],
  ["in a session of its own", ["sh", "-c", "setsid python app.py & wait"], ["ending", "ended"]],
  [
    "once, where its manager asks it",
    ["python", "manager.py"],
    ["ending", "ended", "manager ended"],
  ],
];
for (const sandbox of drawCases(sandboxes, { what: "kinds of sandbox", max: 1 })) {
  describe(`ends of processes, sandbox: ${sandbox.kind}`, () => {
    exits(sandbox);
    wrappers(sandbox);
    otherPorts(sandbox);
  });
}

function exits(sandbox: Sandbox): void {
  for (const [what, entrypoint, form] of reasons) {
    it(`says how an app ended: ${what}`, async (t) => {
      const { fixture, driver, sink } = await stage(t, { sandbox });
      const artifact = fixture.artifact({
        "crlf.sh": "#!/bin/sh\r\n",
        "nowhere.sh": "#!/opt/nowhere/sh\n",
      });
      const appDir = String(artifact["appDir"]);
      for (const name of ["crlf.sh", "nowhere.sh"]) chmodSync(join(appDir, name), 0o755);
      const outside = temporaryFolder(t, "outside");
      writeFileSync(join(outside, "outside.sh"), "#!/bin/sh\r\n", { mode: 0o755 });
      symlinkSync(join(outside, "outside.sh"), join(appDir, "outside.sh"));
      const spec = replicaSpec({ artifact, runtime: "custom", entrypoint });
      await driver.start(spec, live);
      assert.match((await sink.told("exited", spec.replicaId)).reason, form);
    });
  }

  it("asks only the app to end, by SIGTERM, and hands over what it says then", async (t) => {
    const { fixture, driver, sink } = await stage(t, { sandbox });
    const script = `import signal, sys
def end(*_):
    print("ending", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("up", flush=True)
signal.pause()
`;
    const spec = replicaSpec({
      artifact: fixture.artifact({ "app.py": script }),
      runtime: "custom",
      entrypoint: ["python", "app.py"],
    });
    await driver.start(spec, live);
    await sink.line(spec.replicaId, "up");
    await driver.stop(spec.replicaId, { graceMs });
    const exited = await sink.told("exited", spec.replicaId);
    assert.deepEqual([exited.exitCode, exited.reason], [0, "The replica was stopped."]);
    await sink.line(spec.replicaId, "ending");
    assert.deepEqual(sink.texts(spec.replicaId), ["up", "ending"]);
  });
}

function wrappers(sandbox: Sandbox): void {
  for (const [what, entrypoint, expected] of cases) {
    it(`asks a server to end: ${what}`, async (t) => {
      const { fixture, driver, sink } = await stage(t, { sandbox });
      const artifact = fixture.artifact({
        "app.py": server,
        "wrapper.py": wrapper,
        "manager.py": manager,
        "start.sh": "python app.py\necho never\n",
      });
      const spec = replicaSpec({ artifact, runtime: "custom", entrypoint });
      await driver.start(spec, live);
      await sink.line(spec.replicaId, "up");
      await driver.stop(spec.replicaId, { graceMs });
      assert.equal(
        (await sink.told("exited", spec.replicaId)).reason.startsWith("The replica was stopped"),
        true,
      );
      await sink.line(spec.replicaId, expected.at(-1) ?? "");
      const printed = sink.taken
        .filter(({ stream }) => stream === "stdout")
        .map(({ text }) => text);
      assert.deepEqual(printed, ["up", ...expected]);
    });
  }

  it("waits for what a shell leaves behind no longer than the grace", async (t) => {
    const { fixture, driver, sink } = await stage(t, { sandbox });
    const script = `python -c 'import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print("up", flush=True); signal.pause()'; exit`;
    const spec = replicaSpec({
      artifact: fixture.artifact({}),
      runtime: "custom",
      entrypoint: ["sh", "-c", script],
    });
    await driver.start(spec, live);
    await sink.line(spec.replicaId, "up");
    await driver.stop(spec.replicaId, { graceMs: 500 });
    assert.match((await sink.told("exited", spec.replicaId)).reason, /did not stop in time/);
  });
}

function otherPorts(sandbox: Sandbox): void {
  it("finds a server on another port, and has nothing to say of one that gets its calls", async (t) => {
    const { fixture, driver, sink } = await stage(t, { sandbox });
    const code = `import os, signal, socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1]) or int(os.environ["PORT"])))
print("up", server.getsockname()[1], flush=True)
signal.pause()`;
    const artifact = fixture.artifact({ "app.py": code });
    for (const port of ["0", "39471"]) {
      const entrypoint = ["python", "app.py", port];
      const spec = replicaSpec({ artifact, runtime: "custom", entrypoint, port: 38_471 });
      await driver.start(spec, live);
      await sink.line(spec.replicaId, "up");
      const found = await driver.whyUnreached(spec.replicaId);
      if (port === "0") assert.equal(found, null);
      else
        assert.match(
          found ?? "",
          /^It listens on port 39471: set port = 39471, or have it listen on \d+\.$/,
        );
    }
  });
}
