// The systemd unit that holds the platform's listening socket: while the service restarts,
// connections wait in it, where they would be refused without it.
import { existsSync, readFileSync } from "node:fs";
import { isIP } from "node:net";
import { settingsFile } from "./service-unit.ts";

/** Where systemd looks for the unit. */
export const socketUnitFile = "/etc/systemd/system/slipway.socket";

/** What the platform takes without a setting. */
const usual = { host: "127.0.0.1", port: "7070" };

/**
 * The text of the unit, for the settings of the service; null when systemd cannot hold their
 * address: a host that is a name, or a port that is chosen at each start.
 */
export function socketUnit(): string | null {
  const host = setting("SLIPWAY_HOST") ?? usual.host;
  const port = setting("SLIPWAY_PORT") ?? usual.port;
  if (isIP(host) === 0 || !/^[1-9]\d*$/.test(port)) return null;
  return `# Written by slipway service install, for the settings in ${settingsFile}
[Unit]
Description=The socket of Slipway, in which connections wait while it restarts
# A stop of the service closes it, a restart does not.
StopPropagatedFrom=slipway.service

[Socket]
ListenStream=${isIP(host) === 6 ? `[${host}]` : host}:${port}
BindIPv6Only=both
# How many may wait; net.core.somaxconn of the kernel, usually 4096, is the limit in fact.
Backlog=65535

[Install]
WantedBy=slipway.service
`;
}

/** The last value of the setting in the file of the service, without its quotes. */
function setting(name: string): string | undefined {
  if (!existsSync(settingsFile)) return undefined;
  const text = readFileSync(settingsFile, "utf8");
  const line = new RegExp(`^[ \\t]*${name}=(["']?)(.*)\\1[ \\t]*$`, "gm");
  return [...text.matchAll(line)].at(-1)?.[2];
}
