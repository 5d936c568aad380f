// The mount table of a sandbox: what is shown, what is covered, in which order.
import assert from "node:assert/strict";
import { test } from "node:test";
import { baseTable, viewTable, type SandboxContext, type SandboxView } from "./sandbox-view.ts";

const ground = {
  systemFolders: ["/usr", "/opt"],
  etcFolders: ["/etc/ssl/certs"],
  mounts: [],
  isUserOwned: false,
};
const view: SandboxView = {
  stagingDir: "/data/r/root",
  readOnly: ["/data/venv"],
  writable: ["/data/r/home"],
  temporaryDir: "/data/r/tmp",
  etcDir: "/data/r/etc",
  account: { user: 7, home: "/home/app" },
  hidden: ["/data"],
};
const mountTable = (given: SandboxView, context: SandboxContext): string =>
  baseTable(given, context) + viewTable(given, context);
const targets = (given: SandboxView): string[] =>
  mountTable(given, ground)
    .trimEnd()
    .split("\n")
    .map((line) =>
      (line.split(" ")[1] ?? "").slice(given.stagingDir.length).replace(/^\/root/, ""),
    );

test("the table shows the system, what is named and nothing else", () => {
  const inView = [
    "",
    "/usr",
    "/opt",
    "/sys",
    "/dev",
    "/dev/shm",
    "/dev/pts",
    "/proc",
    "/etc",
    "/dev/shm",
    "/tmp",
    "/var/tmp",
  ];
  const named = ["/data/venv", "/data/r/home"];
  const aroundView = ["", "/usr", "/opt", "/proc"];
  // What is mounted in the copy of /etc comes with it.
  const found = targets(view).filter((path) => path !== "/etc/ssl/certs");
  assert.deepEqual(found, [...aroundView, ...[...inView, ...named].map((path) => `/view${path}`)]);
});

test("a hidden folder inside a system folder is covered before what is shown of it", () => {
  const found = targets({
    ...view,
    hidden: ["/opt/slipway/data"],
    readOnly: ["/opt/slipway/data/venv", "/opt/python"],
  });
  assert.ok(found.includes("/opt/slipway/data"), "around the view too");
  assert.ok(found.includes("/view/opt/slipway/data"));
  assert.ok(found.indexOf("/view/opt/slipway/data") < found.indexOf("/view/opt/slipway/data/venv"));
  assert.ok(
    !found.includes("/view/opt/python"),
    "what the system's folders show already is not shown again",
  );
});

test("a folder comes before what lies in it", () => {
  const found = targets({ ...view, writable: ["/data/a/b/c", "/data/a"], readOnly: ["/data/a/b"] });
  assert.deepEqual(found.slice(-3), ["/view/data/a", "/view/data/a/b", "/view/data/a/b/c"]);
});

test("blanks and other signs of the table in a path stay part of the path", () => {
  const table = mountTable({ ...view, writable: ["/data/a b\\c#d"] }, ground);
  assert.ok(table.includes("/data/a\\040b\\134c\\043d "));
  assert.equal(table.split("\n").at(-1), "");
});

test("what is mounted below a system folder is shown read-only too, and keeps its flags", () => {
  const mounts = [
    { at: "/", flags: "" },
    { at: "/opt/disk", flags: "nosuid,nodev," },
    { at: "/sys", flags: "nosuid,nodev,noexec," },
    { at: "/data", flags: "nodev," },
  ];
  const table = mountTable(view, { ...ground, mounts }).split("\n");
  const ofView = table.filter((line) =>
    / \/data\/r\/root\/root\/view\/(opt|sys|usr|data\/venv)/.test(line),
  );
  assert.deepEqual(ofView, [
    "/usr /data/r/root/root/view/usr none rbind,ro,X-mount.mkdir 0 0",
    "/opt /data/r/root/root/view/opt none rbind,ro,X-mount.mkdir 0 0",
    "/opt/disk /data/r/root/root/view/opt/disk none rbind,ro,nosuid,nodev,nofail 0 0",
    "/sys /data/r/root/root/view/sys none rbind,ro,nosuid,nodev,noexec,X-mount.mkdir 0 0",
    "/data/venv /data/r/root/root/view/data/venv none rbind,ro,nodev,X-mount.mkdir 0 0",
  ]);
});

test("message queues of the machine are covered by queues of the run's own", () => {
  const mounts = [{ at: "/dev/mqueue", flags: "nosuid,nodev,noexec," }];
  const table = mountTable(view, { ...ground, mounts }).split("\n");
  const devices = table.findIndex((line) => line.startsWith("/dev "));
  const queues = table.findIndex((line) =>
    line.startsWith("mqueue /data/r/root/root/view/dev/mqueue mqueue "),
  );
  assert.ok(devices !== -1 && queues > devices);
});
