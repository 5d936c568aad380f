// The unit of `slipway service` and the file with its settings, as systemd reads them.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { serviceSettings, serviceUnit, stopUnit } from "./service-unit.ts";

const installation = {
  root: "/opt/slipway",
  dataDir: "/var/lib/slipway",
  cwd: "/",
  node: "/bin/sh",
  platform: ["/opt/slipway/bin/slipway.js", "start"],
  stop: ["/opt/slipway/dist/js/stop.js"],
  backup: ["/opt/slipway/dist/js/backup.js"],
  isCheckout: false,
  isOwn: true,
} as const;

/** What systemd says of a unit with this text; an empty string when nothing is wrong. */
function verified(t: TestContext, unit: string): string {
  const folder = mkdtempSync(join(tmpdir(), "slipway-test-unit-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "slipway.service");
  writeFileSync(file, unit);
  const { status, stdout, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", file], {
    encoding: "utf8",
    timeout: 60_000,
  });
  return `${status === 0 ? "" : `exit code ${status}: `}${stdout}${stderr}`;
}

const hasSystemd = spawnSync("systemd-analyze", ["--version"]).status === 0;
const skip = hasSystemd ? false : "needs systemd-analyze, of the package systemd";

test("systemd finds no fault in the units, also with paths that it would expand", { skip }, (t) => {
  assert.equal(verified(t, serviceUnit(installation)), "");
  const strange = { ...installation, dataDir: '/srv/50% "of" $HOME', platform: ["/a b%n$x"] };
  assert.equal(verified(t, serviceUnit(strange)), "");
  assert.equal(verified(t, stopUnit(strange)), "");
  assert.match(verified(t, serviceUnit({ ...installation, node: "relative" })), /exit code 1/);
});

test("words of the command and the data folder are quoted, and nothing in them is expanded", () => {
  const unit = serviceUnit({
    ...installation,
    dataDir: '/srv/50% "of"',
    platform: ["/a b", "$x", "%n"],
  });
  assert.match(unit, /^ExecStart="\/bin\/sh" "\/a b" "\$\$x" "%%n"$/m);
  assert.match(unit, /^Environment="SLIPWAY_DATA_DIR=\/srv\/50%% \\"of\\""$/m);
});

test("neither the platform nor its end goes on without the file with the settings", () => {
  for (const unit of [serviceUnit(installation), stopUnit(installation)])
    assert.match(unit, /^ExecStartPre=.*test -e \/etc\/slipway\/environment \|\| .*exit 1/m);
});

test("the settings are those that the platform uses, in order; the command line's own stay out", () => {
  const text = serviceSettings({
    SLIPWAY_PORT: "80",
    SLIPWAY_BASE_URL: 'https://a/"b"\\',
    SLIPWAY_SMTP_PASSWORD: "$HOME\n%n",
    SLIPWAY_TOKEN: "of the command line",
    SLIPWAY_URL: "of the command line",
    SLIPWAY_DATA_DIR: "/in/the/unit",
    SLIPWAY_HOST: undefined,
    HOME: "/root",
    PATH: "/bin",
    https_proxy: "http://proxy:3128",
    NODE_EXTRA_CA_CERTS: "/etc/ssl/own.pem",
    NODE_OPTIONS: "--no-warnings",
  });
  assert.deepEqual(
    text.split("\n").filter((line) => !line.startsWith("#")),
    [
      'NODE_EXTRA_CA_CERTS="/etc/ssl/own.pem"',
      String.raw`SLIPWAY_BASE_URL="https://a/\"b\"\\"`,
      'SLIPWAY_PORT="80"',
      'SLIPWAY_SMTP_PASSWORD="$HOME',
      '%n"',
      'https_proxy="http://proxy:3128"',
      "",
    ],
  );
});
