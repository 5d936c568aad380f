// The systemd unit of the platform, and the file with its settings.
import { isNetworkVariable } from "@slipway/server/src/lib/tool-variables.ts";
import { commandLineSettings, type Installation } from "./installation.ts";

/** Where settings of the service are: lines of `NAME=value`. Only root reads it. */
export const settingsFile = "/etc/slipway/environment";

/** Why nothing goes on without the settings: those by default may name another database. */
export const settingsMissing = `${settingsFile} is missing, which has the settings of the service. Restore it, or make an empty file if there were none; then try again.`;

/** Settings of the command line, and the one that the unit itself sets. */
const notForService = [...commandLineSettings, "SLIPWAY_DATA_DIR"];

/** Longer than any stop: the platform ends running calls within its own deadline. */
const stopSeconds = 12 * 3600;

/** The text of the unit. */
export function serviceUnit(installation: Installation): string {
  return `# Written by slipway service install. Changes: systemctl edit slipway
[Unit]
Description=Slipway, a serverless platform
Wants=network-online.target
# The engine has to be there before containers are looked for; without one it is not waited for.
After=network-online.target docker.service
# It tries for ever: its database may be away for longer than the usual five attempts.
StartLimitIntervalSec=0

[Service]
Type=exec
${programLines(installation, installation.platform)}
Restart=on-failure
RestartSec=5
# Replicas go on while the platform restarts, and the next one takes them over.
KillMode=process
TimeoutStopSec=${stopSeconds}
# The platform makes a cgroup with limits for each replica.
Delegate=yes
TasksMax=infinity
LimitNOFILE=1048576
# A replica that runs out of memory ends alone.
OOMPolicy=continue

# What the platform does not need. It stays root, to run each project's apps as a user of their own
# and in networks of their own. It keeps the machine's mounts, since the next platform must find the
# networks of replicas that go on: no option that gives it mounts of its own is set, such as
# ProtectSystem, ProtectHome or PrivateTmp.
CapabilityBoundingSet=~CAP_SYS_MODULE CAP_SYS_BOOT CAP_SYS_TIME CAP_SYSLOG CAP_SYS_RAWIO
CapabilityBoundingSet=~CAP_AUDIT_CONTROL CAP_MAC_ADMIN CAP_MAC_OVERRIDE CAP_WAKE_ALARM
LockPersonality=yes
RestrictRealtime=yes
KeyringMode=private

[Install]
WantedBy=multi-user.target
`;
}

/** The text of a unit that ends replicas once, with the settings of the service. */
export function stopUnit(installation: Installation): string {
  return `[Unit]
Description=Ends the replicas of Slipway
CollectMode=inactive-or-failed

[Service]
Type=oneshot
${programLines(installation, installation.stop)}
`;
}

/** What to run, where, and with which settings. */
function programLines(
  { node, cwd, dataDir, isCheckout }: Installation,
  program: readonly string[],
): string {
  // A package has no folder that its settings could refer to.
  const folder = isCheckout ? cwd : "/";
  return `ExecStart=${[node, ...program].map(quoted).join(" ")}
WorkingDirectory=${path(folder)}
${dataDirLine(dataDir)}
# This prints a reason when the file is missing; systemd would name no file.
EnvironmentFile=-${settingsFile}
ExecStartPre=/bin/sh -c 'test -e ${settingsFile} || { echo "${settingsMissing}" >&2; exit 1; }'`;
}

/** The line of the unit that says whose data the service uses. */
export function dataDirLine(dataDir: string): string {
  return `Environment=${quoted(`SLIPWAY_DATA_DIR=${dataDir}`)}`;
}

/**
 * The file with the variables that the platform uses: its settings, and proxies, certificates and
 * package indexes. A value in double quotes may have several lines, and systemd expands nothing in
 * it.
 */
export function serviceSettings(environment: Readonly<Record<string, string | undefined>>): string {
  const lines = Object.entries(environment).flatMap(([name, value]) =>
    value !== undefined && isForService(name) ? [`${name}="${escaped(value)}"`] : [],
  );
  const about =
    "# Settings of the platform, one SLIPWAY_…=value on each line: slipway start --settings lists them.\n# Proxies and certificates, such as HTTPS_PROXY and NODE_EXTRA_CA_CERTS, may be here too.\n# After a change: systemctl restart slipway\n";
  return `${about}${lines
    .toSorted()
    .map((line) => `${line}\n`)
    .join("")}`;
}

function isForService(name: string): boolean {
  // Node.js itself reads the one with the certificates.
  if (name === "NODE_EXTRA_CA_CERTS" || isNetworkVariable(name)) return true;
  return name.startsWith("SLIPWAY_") && !notForService.includes(name);
}

/** Quotes a word of a command, in which systemd would expand % and $. */
function quoted(word: string): string {
  const text = escaped(word.replaceAll("%", "%%").replaceAll("$", "$$$$"));
  return `"${text.replaceAll("\n", String.raw`\n`)}"`;
}

/** The text between double quotes. */
function escaped(text: string): string {
  return text.replaceAll(/["\\]/g, String.raw`\$&`);
}

/** Escapes a path that is a whole value, in which systemd would expand %. */
function path(text: string): string {
  return text.replaceAll("%", "%%");
}
