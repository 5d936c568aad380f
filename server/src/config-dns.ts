// Reads the settings that name DNS servers, for config.ts and config-acme.ts.
import { isIP } from "node:net";
import type { SettingReader } from "./config-table.ts";

/** An IPv4 address, or an IPv6 address in brackets; then a port. */
const withPort = /^(?:([\d.]+)|\[([\da-f:.]+)\]):([1-9]\d{0,4})$/i;
const portMax = 65_535;

/** The servers that a setting lists, as Node's resolver takes them; empty when it is not set. */
export function readDnsServers(
  name: "SLIPWAY_DNS_SERVERS" | "SLIPWAY_ACME_DNS_SERVERS",
  { text, refuse }: SettingReader,
): readonly string[] {
  const servers = (text(name) ?? "").split(",").map((server) => server.trim());
  const given = servers.filter((server) => server !== "");
  const wrong = given.find((server) => !isServer(server));
  if (wrong === undefined) return given;
  return refuse(
    `${name} has "${wrong}", but must contain IP addresses such as 9.9.9.9, 9.9.9.9:5353 or [2620:fe::fe]:5353.`,
  );
}

function isServer(text: string): boolean {
  if (isIP(text) !== 0) return true;
  const [, address = "", inBrackets = "", port] = withPort.exec(text) ?? [];
  const isAddress = isIP(address) === 4 || isIP(inBrackets) === 6;
  return isAddress && Number(port) <= portMax;
}
