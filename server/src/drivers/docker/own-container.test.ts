// What the platform shares with the machine when it runs in a container itself.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import { temporaryFolder } from "#test/support/folder.ts";
import type { Engine } from "./engine.ts";
import { findSharedPaths, ownContainerId, sameFiles } from "./own-container.ts";

const id = "0123456789abcdef".repeat(4);
const mountinfo = `650 640 8:1 /var/lib/docker/containers/${id}/resolv.conf /etc/resolv.conf rw - ext4 /dev/sda1 rw
651 640 8:1 /var/lib/docker/containers/${id}/hostname /etc/hostname rw,relatime - ext4 /dev/sda1 rw
`;
const dataDir = "/var/lib/slipway";
const storageDir = `${dataDir}/storage`;
const volume = "/var/lib/docker/volumes/slipway/_data";
const dataRoot = "/var/lib/docker";
const rights = {
  NetworkMode: "host",
  PidMode: "host",
  CapAdd: ["CAP_NET_ADMIN", "CAP_SYS_ADMIN", "SYS_PTRACE"],
  CgroupnsMode: "host",
};

const capabilities = "--cap-add SYS_ADMIN --cap-add NET_ADMIN --cap-add SYS_PTRACE";

/** An engine that knows only this container. */
function engineWith(container: object | null) {
  const inspect = () =>
    container === null
      ? Promise.reject(Object.assign(new Error("no such container"), { statusCode: 404 }))
      : Promise.resolve(container);
  const calls = { getContainer: () => ({ inspect }) } as unknown as Engine["calls"];
  return { calls, facts: { dataRoot } };
}

/** A folder /proc with these mounts of this process, on a machine that hides its first process. */
function ownSide(t: TestContext, mounts: string) {
  const processes = temporaryFolder(t, "proc");
  const files = {
    "self/mountinfo": mounts,
    "1/mountinfo": "53 27 0:4 net:[4026531833] /run/docker/netns/default rw - nsfs nsfs rw\n",
    "12/mountinfo": "53 27 0:4 net:[4026531833] /run/docker/netns/default rw - nsfs nsfs rw\n",
    [`12/root${dataRoot}/file`]: "",
  };
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(processes, name)), { recursive: true });
    writeFileSync(join(processes, name), text);
  }
  return { dataDir, storageDir, processes, isRoot: true };
}

/** With these options of the container, and these of its mounts. */
async function shared(
  t: TestContext,
  options: object,
  mounts: readonly (readonly [at: string, source: string])[] = [[dataDir, volume]],
  isRoot = true,
) {
  const Mounts = mounts.map(([Destination, Source]) => ({ Destination, Source }));
  const engine = engineWith({ HostConfig: { ...rights, ...options }, Mounts });
  return await findSharedPaths(engine, { ...ownSide(t, mountinfo), isRoot });
}

test("the container is known by its mounts, also one of podman, and outside there is none", () => {
  assert.equal(ownContainerId(mountinfo), id);
  const podman = `1 2 0:3 /containers/overlay-containers/${id}/userdata/hostname /etc/hostname rw - tmpfs tmpfs rw`;
  assert.equal(ownContainerId(podman), id);
  assert.equal(ownContainerId("22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"), null);
});

test("outside a container, and in one of another engine, paths are the same", async (t) => {
  const same = { mountedDataDir: dataDir, mountedStorageDir: storageDir, machine: sameFiles };
  assert.deepEqual(await findSharedPaths(engineWith(null), ownSide(t, "")), same);
  assert.deepEqual(await findSharedPaths(engineWith(null), ownSide(t, mountinfo)), same);
});

test("the storage on the machine is in the nearest mount", async (t) => {
  const pathWith = async (...mounts: (readonly [string, string])[]) =>
    (await shared(t, {}, mounts)).mountedStorageDir;
  assert.equal(await pathWith([dataDir, volume]), `${volume}/storage`);
  assert.equal(await pathWith([storageDir, "/srv/apps"]), "/srv/apps");
  assert.equal(
    await pathWith(["/var/lib", "/srv"], [dataDir, volume], ["/var/lib/slip", "/other"]),
    `${volume}/storage`,
  );
});

test("a container does not start where apps could not get their storage or be reached", async (t) => {
  const only = /^CannotStart: The data folder \/var\/lib\/slipway is only in the platform's own/;
  await assert.rejects(shared(t, {}, []), only);
  await assert.rejects(shared(t, {}, [[dataDir, ""]]), only);
  await assert.rejects(
    shared(t, { NetworkMode: "bridge" }),
    /is in the network bridge.*--network host/,
  );
});

test("root in a container needs the machine's processes and cgroups, another user does not", async (t) => {
  const refused = async (options: object, lacking: string) =>
    await assert.rejects(shared(t, options), new RegExp(`Start the container with ${lacking}, or`));
  await refused({ PidMode: "" }, "--pid host");
  await refused(
    { CgroupnsMode: "private", CapAdd: ["SYS_ADMIN", "SYS_PTRACE"] },
    "--cgroupns host --cap-add NET_ADMIN",
  );
  await refused({ CapAdd: null }, capabilities);
  await assert.doesNotReject(shared(t, { CapAdd: null, Privileged: true }));
  const { machine } = await shared(t, { CapAdd: ["ALL"], CgroupnsMode: undefined });
  assert.match(machine.root, /\/12\/root$/);
  assert.match(machine.mountinfo, /\/12\/mountinfo$/);
  const asUser = await shared(t, { PidMode: "", CapAdd: null }, [[dataDir, volume]], false);
  assert.deepEqual(asUser, {
    mountedDataDir: volume,
    mountedStorageDir: `${volume}/storage`,
    machine: sameFiles,
  });
});
