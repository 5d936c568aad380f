// The guard for outward calls: the corpus of hostile addresses, what an operator opens, and the
// platform's own places.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { BlockList, isIPv4 } from "node:net";
import { networkInterfaces } from "node:os";
import { test } from "node:test";
import fc from "fast-check";
import { z } from "zod";
import { OutwardGuard } from "./outward-guard.ts";
import { readAddress, specialKind } from "./outward-ranges.ts";

const group = z.object({
  name: z.string(),
  verdict: z.enum(["allowed", "refused"]),
  /** In the reason of each refused URL, so that none is refused by accident. */
  because: z.string().optional(),
  lines: z.array(z.string()),
});
const corpusFile = new URL("../../test/hostile-addresses.json", import.meta.url);
const corpus = z
  .object({ urls: z.array(group), answers: z.array(group) })
  .parse(JSON.parse(readFileSync(corpusFile, "utf8")));

const guard = new OutwardGuard({ allow: [] });

test("each of several hundred hostile URLs is refused for its true reason, and public receivers are not", () => {
  const wrong: unknown[] = [];
  for (const { name, verdict, because = "^no reason given$", lines } of corpus.urls) {
    for (const line of lines) {
      const problem = guard.checkUrl(line);
      const isRight =
        verdict === "allowed" ? problem === null : new RegExp(because).test(problem ?? "");
      if (!isRight) wrong.push({ name, line, problem });
    }
  }
  assert.deepEqual(wrong, []);
  assert.ok(corpus.urls.flatMap(({ lines }) => lines).length > 500);
});

test("each address that DNS may answer has its verdict", () => {
  for (const { verdict, lines } of corpus.answers) {
    for (const line of lines) assert.equal(guard.isAllowed(line), verdict === "allowed", line);
  }
});

test("very long URLs are refused at once", () => {
  for (const url of [
    `http://example.com/${"a".repeat(4_096)}`,
    `http://${"a".repeat(1_000_000)}/`,
    `http://${"a@".repeat(500_000)}127.0.0.1/`,
    `${" ".repeat(5_000)}http://127.0.0.1/`,
  ]) {
    assert.match(guard.checkUrl(url) ?? "", /longer than 4096/);
  }
  assert.equal(guard.checkUrl(`http://example.com/${"a".repeat(4_000)}`), null);
});

test("an address is public exactly when no registered special range holds it", () => {
  const special = specialRanges();
  const octets = fc
    .array(fc.nat(255), { minLength: 4, maxLength: 4 })
    .map((list) => list.join("."));
  const groups = fc
    .tuple(
      fc.constantFrom(0x64, 0x100, 0x2001, 0x2002, 0x2620, 0x2a00, 0x3fff, 0xfc00, 0xfe80, 0xff02),
      rest(),
    )
    .map(([first, others]) => [first, ...others].map((part) => part.toString(16)).join(":"));
  fc.assert(
    fc.property(fc.oneof(octets, groups), (address) => {
      const isSpecial = isIPv4(address)
        ? special.v4.check(address, "ipv4")
        : special.v6.check(address, "ipv6");
      assert.equal(guard.isAllowed(address), !isSpecial, address);
    }),
    { numRuns: 3_000 },
  );
});

test("both ends of every special range are refused and their public neighbours are not", () => {
  for (const [first, last, before, after] of [
    ["10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"],
    ["100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"],
    ["127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"],
    ["169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"],
    ["172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"],
    ["192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"],
    ["198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"],
    ["224.0.0.0", "255.255.255.255", "223.255.255.255", "1.0.0.0"],
    ["2001:db8::", "2001:db8:ffff::", "2001:db7::", "2001:db9::"],
    ["2002::", "2002:ffff::", "2001:ffff::", "2003::"],
    ["3fff::", "3fff:fff::", "3ffe::", "3fff:1000::"],
    ["4000::", "ffff::", "3fff:ffff::", "2000::"],
  ] as const) {
    assert.deepEqual(
      [first, last, before, after].map((address) => guard.isAllowed(address)),
      [false, false, true, true],
    );
  }
});

test("what an operator opens may be called, also in its IPv6 form, and nothing beside it", () => {
  const open = new OutwardGuard({
    allow: ["10.1.0.0/16", "127.0.0.1", "fd00:1::/32", "::ffff:192.168.7.0/120"],
  });
  for (const url of [
    "http://10.1.2.3/",
    "http://[::ffff:10.1.2.3]/",
    "http://127.0.0.1:8080/",
    "http://localhost:8080/",
    "http://[fd00:1:2::3]/",
    "http://192.168.7.9/",
  ]) {
    assert.equal(open.checkUrl(url), null, url);
  }
  for (const url of [
    "http://10.2.0.0/",
    "http://127.0.0.2/",
    "http://[fd00:2::]/",
    "http://192.168.8.0/",
    "http://[::1]/",
  ]) {
    assert.match(open.checkUrl(url) ?? "", /may not be called: it is .*SLIPWAY_WEBHOOK_ALLOW/, url);
  }
  assert.match(open.checkUrl("http://10.258/") ?? "", /^Write the URL's address as 10\.0\.1\.2/);
  assert.equal(new OutwardGuard({ allow: ["0.0.0.0/0"] }).isAllowed("::1"), false);
  assert.equal(new OutwardGuard({ allow: ["0.0.0.0/0"] }).isAllowed("::ffff:127.0.0.1"), true);
});

test("a bad range is named with what is allowed", () => {
  for (const range of [
    "",
    "x",
    "10.0.0.0/33",
    "10.0.0.0/-1",
    "10.0.0.0/08",
    "10.0.0.0/",
    "10/8",
    "10.0.0.0/8/8",
    "::1/129",
    "fe80::1%eth0/64",
    "0x0a.0.0.0/8",
    "localhost",
    "10.0.0.0/255.0.0.0",
  ]) {
    assert.throws(
      () => new OutwardGuard({ allow: [range] }),
      { name: "Error", message: new RegExp(`^"${range.replaceAll(".", "\\.")}" is not`) },
      range,
    );
  }
  assert.throws(
    () => new OutwardGuard({ allow: ["10.1.2.3/8"] }),
    /write 10\.0\.0\.0\/8, or 10\.1\.2\.3 for this address/,
  );
  assert.throws(() => new OutwardGuard({ allow: ["fd00::1/8"] }), /write fd00::\/8/);
});

test("the platform's own places are refused on their ports unless they are opened", () => {
  const ownListeners = [
    { host: "9.9.9.9", port: 8080 },
    { host: "Database.example.", port: 5433 },
    { host: "[2606:4700::1]", port: 8080 },
  ];
  const own = new OutwardGuard({ allow: [], ownListeners });
  for (const url of [
    "http://9.9.9.9:8080/",
    "http://database.example:5433/",
    "http://database.example.:5433/",
    "http://[2606:4700:0::1]:8080/",
    "http://[::ffff:9.9.9.9]:8080/",
  ]) {
    assert.match(own.checkUrl(url) ?? "", /the platform itself is there/, url);
  }
  for (const url of ["http://9.9.9.9/", "http://database.example/", "http://9.9.9.10:8080/"])
    assert.equal(own.checkUrl(url), null);
  assert.deepEqual([own.isAllowed("9.9.9.9", 8080), own.isAllowed("9.9.9.9", 80)], [false, true]);
  assert.equal(
    new OutwardGuard({ allow: ["9.9.9.9"], ownListeners }).checkUrl("http://9.9.9.9:8080/"),
    null,
  );
});

test("a platform that listens everywhere is at every address of its machine", () => {
  const machineAddresses = (): string[] => [
    "127.0.0.1",
    "9.9.9.9",
    "2606:4700:0::9",
    "fe80::1%eth0",
  ];
  for (const host of ["0.0.0.0", "::", "[::]"]) {
    const own = new OutwardGuard({ allow: [], machineAddresses });
    assert.equal(own.isAllowed("9.9.9.9", 8080), true);
    own.addOwnListener({ host, port: 8080 });
    for (const address of ["9.9.9.9", "2606:4700::9", "::ffff:9.9.9.9"])
      assert.equal(own.isAllowed(address, 8080), false);
    assert.deepEqual([own.isAllowed("9.9.9.9", 80), own.isAllowed("9.9.9.10", 8080)], [true, true]);
  }
});

test("the addresses of this machine are read from its interfaces", () => {
  const machine = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const own = new OutwardGuard({ allow: [], ownListeners: [{ host: "0.0.0.0", port: 8080 }] });
  for (const { address } of machine) assert.equal(own.isAllowed(address, 8080), false, address);
});

test("reasons do not repeat what may be secret in a URL", () => {
  for (const url of [
    "http://me:hunter2@example.com/",
    "ftp://x/?token=hunter2",
    "http://example.com/#hunter2",
    "http://127.0.0.1/hunter2",
    "http://a..b/hunter2",
  ]) {
    const problem = guard.checkUrl(url);
    assert.ok(problem !== null && !problem.includes("hunter2"), url);
  }
});

test("what special addresses are called reads well", () => {
  const kinds = [
    "127.0.0.1",
    "10.0.0.1",
    "168.63.129.16",
    "::7f00:1",
    "2001:db8::1",
    "8.8.8.8",
  ].map((text) => {
    const address = readAddress(text);
    return address === null ? undefined : specialKind(address);
  });
  assert.deepEqual(kinds, [
    "a loopback",
    "a private",
    "a metadata",
    "an IPv4-compatible",
    "a reserved",
    null,
  ]);
});

function rest(): fc.Arbitrary<number[]> {
  return fc.array(fc.oneof(fc.constantFrom(0, 1, 0xff9b, 0xffff), fc.nat(0xffff)), {
    minLength: 7,
    maxLength: 7,
  });
}

/**
 * From the registries of special-purpose addresses, written down apart from the guard's own way to
 * say it.
 */
function specialRanges(): { readonly v4: BlockList; readonly v6: BlockList } {
  const v4 = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "192.175.48.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/3",
  ];
  const v6 = [
    "::/3",
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "2620:4f:8000::/48",
    "3fff::/20",
    "4000::/2",
    "8000::/1",
  ];
  return { v4: blockList(v4, "ipv4"), v6: blockList(v6, "ipv6") };
}

function blockList(ranges: readonly string[], family: "ipv4" | "ipv6"): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [base = "", bits] = range.split("/");
    list.addSubnet(base, Number(bits), family);
  }
  return list;
}
