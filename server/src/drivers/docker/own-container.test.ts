// What the platform shares with the machine when it runs in a container itself.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Engine } from "./engine.ts";
import { findSharedPaths, ownContainerId, sameFiles } from "./own-container.ts";

const id = "0123456789abcdef".repeat(4);
const mountinfo = `650 640 8:1 /var/lib/docker/containers/${id}/resolv.conf /etc/resolv.conf rw - ext4 /dev/sda1 rw
651 640 8:1 /var/lib/docker/containers/${id}/hostname /etc/hostname rw,relatime - ext4 /dev/sda1 rw
`;
const dataDir = "/var/lib/slipway";
const storageDir = `${dataDir}/storage`;
const volume = "/var/lib/docker/volumes/slipway/_data";
const own = { dataDir, storageDir, mountinfo, isRoot: true };
const rights = {
  NetworkMode: "host",
  PidMode: "host",
  Privileged: true,
  CgroupnsMode: "host",
};

/** An engine that knows only this container. */
function engineWith(container: object | null): Pick<Engine, "calls"> {
  const inspect = () =>
    container === null
      ? Promise.reject(Object.assign(new Error("no such container"), { statusCode: 404 }))
      : Promise.resolve(container);
  return { calls: { getContainer: () => ({ inspect }) } as unknown as Engine["calls"] };
}

/** With these options of the container, and these of its mounts. */
async function shared(
  options: object,
  mounts: readonly (readonly [at: string, source: string])[] = [[dataDir, volume]],
  isRoot = true,
) {
  const Mounts = mounts.map(([Destination, Source]) => ({ Destination, Source }));
  const engine = engineWith({ HostConfig: { ...rights, ...options }, Mounts });
  return await findSharedPaths(engine, { ...own, isRoot });
}

test("the container is known by its mounts, also one of podman, and outside there is none", () => {
  assert.equal(ownContainerId(mountinfo), id);
  const podman = `1 2 0:3 /containers/overlay-containers/${id}/userdata/hostname /etc/hostname rw - tmpfs tmpfs rw`;
  assert.equal(ownContainerId(podman), id);
  assert.equal(ownContainerId("22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"), null);
});

test("outside a container, and in one of another engine, paths are the same", async () => {
  const same = { mountedStorageDir: storageDir, machine: sameFiles };
  assert.deepEqual(await findSharedPaths(engineWith(null), { ...own, mountinfo: "" }), same);
  assert.deepEqual(await findSharedPaths(engineWith(null), own), same);
});

test("the storage on the machine is in the nearest mount", async () => {
  const pathWith = async (...mounts: (readonly [string, string])[]) =>
    (await shared({}, mounts)).mountedStorageDir;
  assert.equal(await pathWith([dataDir, volume]), `${volume}/storage`);
  assert.equal(await pathWith([storageDir, "/srv/apps"]), "/srv/apps");
  assert.equal(
    await pathWith(["/var/lib", "/srv"], [dataDir, volume], ["/var/lib/slip", "/other"]),
    `${volume}/storage`,
  );
});

test("a container does not start where apps could not get their storage or be reached", async () => {
  const only = /^CannotStart: The data folder \/var\/lib\/slipway is only in the platform's own/;
  await assert.rejects(shared({}, []), only);
  await assert.rejects(shared({}, [[dataDir, ""]]), only);
  await assert.rejects(
    shared({ NetworkMode: "bridge" }),
    /is in the network bridge.*--network host/,
  );
});

test("root in a container needs the machine's processes and cgroups, another user does not", async () => {
  const refused = async (options: object, lacking: string) =>
    await assert.rejects(shared(options), new RegExp(`but without ${lacking} it cannot keep apps`));
  await refused({ PidMode: "" }, "--pid host");
  await refused({ Privileged: false, CgroupnsMode: "private" }, "--privileged and --cgroupns host");
  const { machine } = await shared({ CgroupnsMode: undefined });
  assert.deepEqual(machine, { root: "/proc/1/root", mountinfo: "/proc/1/mountinfo" });
  const asUser = await shared({ PidMode: "", Privileged: false }, [[dataDir, volume]], false);
  assert.deepEqual(asUser, { mountedStorageDir: `${volume}/storage`, machine: sameFiles });
});
