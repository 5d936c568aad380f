// The platform as a service of systemd: a Debian with systemd starts in a container of
// `systemd-nspawn`, where the package is installed, toured, restarted and removed.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { makeFolder, removeFolder } from "./support/folder.ts";
import { addDatabase, installPackage } from "./support/installed-package.ts";

const packages =
  "systemd,python3,python3-venv,git,iproute2,nftables,ca-certificates,procps,libatomic1";

/** The folder of the tour in that Debian: its home, its log and what it leaves for the test. */
const home = "/srv/tour";

/** Ends at the first command that fails; the log shows each command and what it printed. */
const tour = `#!/bin/bash
exec > ${home}/log 2>&1
set -eux -o pipefail
export HOME=${home} PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
cd ${home}
fails() { if "$@"; then exit 1; fi; }
machine() {
  getent passwd
  getent group
  nft list tables
  ls /sys/class/net
  find /sys/fs/cgroup /etc/systemd /run/systemd/system -name '*slipway*' | sort
}
machine > before-install
slipway service remove | grep 'There is no service'
SLIPWAY_LOG_FORMAT=json SLIPWAY_PORT=7070 NO_PROXY=127.0.0.1 slipway service install
grep NO_PROXY /etc/slipway/environment
systemctl is-enabled slipway
journalctl -u slipway -o cat | grep '^{'
mkdir app
cd app
slipway init --name hello
slipway deploy
slipway call hello/run name=Ada | grep 'Hello, Ada!'
slipway replicas hello > ${home}/before
grep 'ListenStream=127.0.0.1:7070' /etc/systemd/system/slipway.socket
while [ ! -e ${home}/restarted ]; do
  slipway call hello/run name=Bob > ${home}/called 2>&1 || cat ${home}/called >> ${home}/failed
done &
caller=$!
systemctl restart slipway
slipway up 2>&1 | grep 'Its log: journalctl -u slipway'
touch ${home}/restarted
wait $caller
[ ! -e ${home}/failed ] || { cat ${home}/failed; exit 1; }
slipway call hello/run name=Bob | grep 'Hello, Bob!'
slipway replicas hello --json > ${home}/after.json
cut -d' ' -f1 ${home}/before | tail -1 | grep -f - ${home}/after.json
pid=$(systemctl show -p MainPID --value slipway)
slipway service install
[ "$(systemctl show -p MainPID --value slipway)" = "$pid" ]
SLIPWAY_DATA_DIR=/srv/other fails slipway service install 2>&1 | grep 'another data folder than /srv/other'
SLIPWAY_DATA_DIR=/srv/other fails slipway service remove 2>&1 | grep 'another data folder than /srv/other'
echo 'SLIPWAY_PORT="7071"' >> /etc/slipway/environment
slipway service install
grep 'ListenStream=127.0.0.1:7071' /etc/systemd/system/slipway.socket
slipway call hello/run name=Eve | grep 'Hello, Eve!'
systemctl stop slipway
fails slipway call hello/run name=Flo 2>&1 | grep 'http://127.0.0.1:7071'
systemctl start slipway
timeout 60 sh -c 'until slipway call hello/run name=Flo; do sleep 1; done' | grep 'Hello, Flo!'
pid=$(systemctl show -p MainPID --value slipway)
kill -9 "$pid"
timeout 60 sh -c 'until slipway call hello/run name=Cyd; do sleep 1; done' | grep 'Hello, Cyd!'
slipway down 2>&1 | grep 'has stopped, and its replicas have ended'
fails pgrep -f start.py
slipway down 2>&1 | grep 'has stopped, and its replicas have ended'
fails slipway up 2>&1 | grep 'Start it: systemctl start slipway'
systemctl start slipway
slipway service remove
slipway service remove
fails pgrep -f start.py
fails ls /etc/systemd/system/slipway.service
fails ls /etc/systemd/system/slipway.socket
for second in $(seq 30); do
  machine > ${home}/after-removal
  if cmp -s ${home}/before-install ${home}/after-removal; then break; fi
  sleep 1
done
diff ${home}/before-install ${home}/after-removal
ls /var/lib/slipway /etc/slipway/environment
echo SLIPWAY_PORT=none > /etc/slipway/environment
fails slipway service install 2> ${home}/refused
cat ${home}/refused
grep 'SLIPWAY_PORT' ${home}/refused
fails slipway service remove 2>&1 | grep 'settings are in /etc/slipway/environment'
mv /etc/slipway/environment settings
fails slipway service install 2>&1 | grep 'environment is missing'
fails slipway service remove 2>&1 | grep 'environment is missing'
fails slipway down 2>&1 | grep 'environment is missing'
fails systemctl start slipway
journalctl -u slipway -n 20 | grep 'environment is missing'
touch /etc/slipway/environment
slipway service remove
chown 1000 /opt/slipway
fails slipway service install 2>&1 | grep '/opt/slipway can be changed by users other than root'
touch ${home}/passed
`;

const unit = `[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=${home}/tour.sh
ExecStopPost=/bin/systemctl poweroff
[Install]
WantedBy=multi-user.target
`;

/**
 * On cgroups of version 1, systemd needs a hierarchy of its own. The kernel keeps it as long as a
 * cgroup in it is not quite gone, and engines cannot measure containers meanwhile.
 */
const boot = `
cgroups=/sys/fs/cgroup
own=$cgroups/systemd
remove_groups() { find "$@" -depth -type d -exec rmdir {} + 2> /dev/null; }
remove_hierarchy() {
  for attempt in 1 2 3 4 5 6 7 8 9 10; do
    remove_groups $own/*
    umount $own
    sleep 1
    grep -q name=systemd /proc/self/cgroup || break
    mount_hierarchy
  done
  rmdir $own
}
mount_hierarchy() { mount -t cgroup -o none,name=systemd cgroup $own; }
if [ ! -e $cgroups/cgroup.controllers ] && ! grep -q name=systemd /proc/self/cgroup; then
  mkdir -p $own
  mount_hierarchy
  trap remove_hierarchy EXIT
fi
remove_groups $cgroups/unified/payload $cgroups/unified/supervisor
systemd-nspawn -q -D "$1" --register=no --keep-unit --private-network -b
`;

const missing = ["systemd-nspawn", "mmdebstrap"].filter(
  (program) => spawnSync("sh", ["-c", `command -v ${program}`]).status !== 0,
);
const obstacles = [
  process.env["SLIPWAY_TEST_SYSTEMD"] === "1"
    ? ""
    : "takes minutes and a cgroup hierarchy of the machine: SLIPWAY_TEST_SYSTEMD=1 runs it",
  process.getuid?.() === 0 ? "" : "needs root",
  missing.length === 0 ? "" : `needs ${missing.join(" and ")}`,
];
const skip = obstacles.find((obstacle) => obstacle !== "") ?? false;

test("the service is installed, keeps replicas over a restart, and is removed", { skip }, (t) => {
  const machine = makeFolder("machine");
  t.after(() => removeFolder(machine));
  const run = (file: string, words: readonly string[]): void => {
    const { status, stderr } = spawnSync(file, words, { encoding: "utf8", timeout: 600_000 });
    assert.equal(status, 0, `${file} ${words.join(" ")}\n${stderr}`);
  };
  run("mmdebstrap", ["--variant=minbase", `--include=${packages}`, "bookworm", machine]);
  const installed = join(machine, "opt/slipway");
  mkdirSync(installed);
  installPackage(installed, "pack.ts", ["--omit=optional"]);
  addDatabase(installed);
  cpSync(process.execPath, join(machine, "usr/local/bin/node"));
  symlinkSync(
    "/opt/slipway/node_modules/slipway/bin/slipway.js",
    join(machine, "usr/local/bin/slipway"),
  );
  const tourDir = join(machine, home);
  mkdirSync(tourDir);
  writeFileSync(join(tourDir, "tour.sh"), tour);
  chmodSync(join(tourDir, "tour.sh"), 0o755);
  const units = join(machine, "etc/systemd/system");
  writeFileSync(join(units, "tour.service"), unit);
  symlinkSync("../tour.service", join(units, "multi-user.target.wants/tour.service"));
  const booted = spawnSync("unshare", ["--mount", "sh", "-c", boot, "sh", machine], {
    encoding: "utf8",
    timeout: 600_000,
  });
  const log = join(tourDir, "log");
  const text = existsSync(log) ? readFileSync(log, "utf8") : `${booted.stdout}${booted.stderr}`;
  assert.ok(existsSync(join(tourDir, "passed")), text);
});
