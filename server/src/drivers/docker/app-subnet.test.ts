// Choosing the addresses of an app's network among the routes of a machine.
import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseSubnet } from "./app-subnet.ts";

const head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";
const everywhere = route("0.0.0.0", "0.0.0.0");

/** A line of /proc/net/route. */
function route(to: string, mask: string): string {
  return ["eth0", hexOf(to), "00000000", "0001", "0", "0", "0", hexOf(mask), "0", "0", "0"].join(
    "\t",
  );
}

function hexOf(address: string): string {
  return Buffer.from(address.split(".").map(Number).toReversed()).toString("hex").toUpperCase();
}

function routesOf(...lines: readonly string[]): string {
  return `${[head, ...lines].join("\n")}\n`;
}

test("an app's network is one to which no route of the machine leads", () => {
  // All but 10.219.7.0/24, by routes as short and as long as they come.
  const seconds = [216, 217, 218, 220, 221, 222, 223];
  const wide = seconds.map((second) => route(`10.${second}.0.0`, "255.255.0.0"));
  const thirds = Array.from({ length: 256 }, (_, third) => third).filter((third) => third !== 7);
  const narrow = thirds.map((third) => route(`10.219.${third}.0`, "255.255.255.0"));
  const routes = routesOf(everywhere, route("10.0.0.0", "255.0.0.0"), ...wide, ...narrow);
  for (let tries = 0; tries < 20; tries++) assert.equal(chooseSubnet(routes), "10.219.7.0/24");
});

test("a route to one address takes its network", () => {
  const hosts = Array.from(
    { length: 2048 },
    (_, index) => `10.${216 + (index >> 8)}.${index & 0xff}.9`,
  );
  const all = hosts
    .filter((host) => host !== "10.223.255.9")
    .map((host) => route(host, "255.255.255.255"));
  assert.equal(chooseSubnet(routesOf(everywhere, ...all)), "10.223.255.0/24");
});

test("where all is taken, or routes are not known, any will do", () => {
  const form = /^10\.2(?:1[6-9]|2[0-3])\.\d+\.0\/24$/;
  const half = ["10.216.0.0", "10.220.0.0"].map((to) => route(to, "255.252.0.0"));
  assert.match(chooseSubnet(routesOf(...half)), form);
  assert.match(chooseSubnet(""), form);
  assert.match(chooseSubnet(routesOf(everywhere)), form);
});
