// The machine's mounts: read from the kernel's list, found for a path and below a folder.
import assert from "node:assert/strict";
import { test } from "node:test";
import { flagsAt, isBelow, mountsBelow, readMounts } from "./system-mounts.ts";

const mountinfo = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:22 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
24 23 0:25 / /sys/fs/cgroup rw,nosuid - tmpfs tmpfs rw
25 22 0:26 / /opt/a\\040b rw,nodev - ext4 /dev/vdb rw
26 23 0:27 / /sys/fs/cgroup ro,noexec - cgroup2 cgroup2 rw
`;

test("the kernel's list gives each place once, with the flags that must stay", () => {
  assert.deepEqual(readMounts(mountinfo), [
    { at: "/", flags: "" },
    { at: "/sys", flags: "nosuid,nodev,noexec," },
    { at: "/opt/a b", flags: "nodev," },
    { at: "/sys/fs/cgroup", flags: "noexec," },
  ]);
});

test("a path has the flags of the nearest mount above it", () => {
  const mounts = readMounts(mountinfo);
  assert.equal(flagsAt("/sys", mounts), "nosuid,nodev,noexec,");
  assert.equal(flagsAt("/sys/fs", mounts), "nosuid,nodev,noexec,");
  assert.equal(flagsAt("/sys/fs/cgroup/x", mounts), "noexec,");
  assert.equal(flagsAt("/system", mounts), "");
  assert.equal(flagsAt("/x", []), "");
});

test("mounts below a folder are those inside it, the outer ones first", () => {
  const mounts = ["/a/b/c", "/a", "/a/b", "/ab"].map((at) => ({ at, flags: "" }));
  assert.deepEqual(
    mountsBelow("/a", mounts).map(({ at }) => at),
    ["/a/b", "/a/b/c"],
  );
});

test("a path lies in a folder by whole names", () => {
  assert.ok(isBelow("/a/b", "/a"));
  assert.ok(isBelow("/a", "/a"));
  assert.ok(isBelow("/a", "/"));
  assert.ok(!isBelow("/ab", "/a"));
});
