// What the settings accept, what they refuse and in which words, and that secrets are not seen.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { isAbsolute } from "node:path";
import { describe, test } from "node:test";
import { inspect } from "node:util";
import { ConfigRefused, readConfig } from "./config.ts";
import { helpText } from "./config-help.ts";
import { settingTable } from "./config-table.ts";

function refusal(environment: Record<string, string>): string {
  try {
    readConfig(environment);
  } catch (error) {
    assert.ok(error instanceof ConfigRefused, String(error));
    return error.message;
  }
  return assert.fail(`${JSON.stringify(environment)} was accepted`);
}

describe("what is accepted", () => {
  test("an empty environment gives every default", () => {
    const config = readConfig({});
    assert.equal(config.host, "127.0.0.1");
    assert.equal(config.port, 7070);
    assert.equal(config.databaseUrl, null);
    assert.equal(config.driver, "auto");
    assert.deepEqual(config.providers, ["aws", "crusoe", "nebius", "local"]);
    assert.deepEqual(config.webhookAllow, []);
    assert.equal(config.simulateCompute, false);
    assert.ok(isAbsolute(config.dataDir) && config.dataDir.endsWith(".slipway"), config.dataDir);
    assert.ok(Object.isFrozen(config));
  });
  test("an empty variable counts as not given", () => {
    assert.equal(readConfig({ SLIPWAY_PORT: "", SLIPWAY_DRIVER: "" }).port, 7070);
  });
  test("sizes given in MB are held in bytes", () => {
    const config = readConfig({ SLIPWAY_BODY_LIMIT_MB: "3", SLIPWAY_GIT_SIZE_MB: "7" });
    assert.deepEqual([config.bodyLimitBytes, config.gitSizeBytes], [3_000_000, 7_000_000]);
  });
  test("a public URL loses the slashes at its end", () => {
    assert.equal(
      readConfig({ SLIPWAY_PUBLIC_URL: "https://s.example//" }).publicUrl,
      "https://s.example",
    );
  });
  test("an announcement has a link only where one is set", () => {
    const SLIPWAY_ANNOUNCEMENT = "Down at 8.";
    const SLIPWAY_ANNOUNCEMENT_LINK = "https://s.example/at-8";
    const of = (given: Record<string, string>) => readConfig(given).announcements;
    assert.deepEqual(of({ SLIPWAY_ANNOUNCEMENT_LINK }), []);
    assert.deepEqual(of({ SLIPWAY_ANNOUNCEMENT }), [
      { message: "Down at 8.", link: "", linkText: "" },
    ]);
    const told = [
      { message: "Down at 8.", link: SLIPWAY_ANNOUNCEMENT_LINK, linkText: "Read more" },
    ];
    assert.deepEqual(of({ SLIPWAY_ANNOUNCEMENT, SLIPWAY_ANNOUNCEMENT_LINK }), told);
  });
  test("a list is split at commas and trimmed", () => {
    assert.deepEqual(readConfig({ SLIPWAY_PROVIDERS: " a, b ,,c" }).providers, ["a", "b", "c"]);
  });
  test("true and 1, false and 0 are the words of a switch", () => {
    for (const [given, meant] of [
      ["true", true],
      ["1", true],
      ["false", false],
      ["0", false],
    ] as const) {
      assert.equal(readConfig({ SLIPWAY_SIMULATE_COMPUTE: given }).simulateCompute, meant);
    }
  });
  test("both ends of a range are in it", () => {
    for (const port of ["0", "65535"])
      assert.equal(readConfig({ SLIPWAY_PORT: port }).port, Number(port));
  });
  test("variables of the test runner and of other programs are left alone", () => {
    readConfig({ SLIPWAY_TEST_DATABASE: "postgres://x", SLIPWAYS: "x", HOME: "/home/x" });
  });
  test("only what tools need is handed on to them", () => {
    const given = {
      PATH: "/bin",
      https_proxy: "p",
      PIP_INDEX_URL: "i",
      UV_CACHE_DIR: "u",
      HOME: "/h",
      SECRET: "s",
    };
    const { toolEnvironment } = readConfig({ ...given, SLIPWAY_SECRET_KEY: "0".repeat(64) });
    const own = { UV_HTTP_RETRIES: "5" };
    assert.deepEqual(toolEnvironment, {
      PATH: "/bin",
      https_proxy: "p",
      PIP_INDEX_URL: "i",
      UV_CACHE_DIR: "u",
      ...own,
    });
  });
  test("the timeout that is set for pip counts for uv, unless it is told otherwise", () => {
    const given = { PIP_DEFAULT_TIMEOUT: "7.5", SLIPWAY_SECRET_KEY: "0".repeat(64) };
    assert.equal(readConfig(given).toolEnvironment["UV_HTTP_TIMEOUT"], "8");
    assert.equal(
      readConfig({ ...given, PIP_DEFAULT_TIMEOUT: "soon" }).toolEnvironment["UV_HTTP_TIMEOUT"],
      undefined,
    );
    const { toolEnvironment } = readConfig({
      ...given,
      UV_HTTP_TIMEOUT: "7",
      UV_HTTP_RETRIES: "1",
    });
    assert.deepEqual(
      [toolEnvironment["UV_HTTP_TIMEOUT"], toolEnvironment["UV_HTTP_RETRIES"]],
      ["7", "1"],
    );
  });
});

describe("what is refused", () => {
  test("an unknown name is refused with the one that was meant", () => {
    const message = refusal({ SLIPWAY_PROT: "1" });
    assert.equal(
      message,
      "SLIPWAY_PROT is not a setting; did you mean SLIPWAY_PORT? See --help for all of them.",
    );
  });
  test("what the command line reads is left alone: a platform may be started where it is set", () => {
    const given = {
      SLIPWAY_URL: "https://example.org",
      SLIPWAY_TOKEN: "a.b.c",
      SLIPWAY_PROJECT: "default",
    };
    assert.doesNotThrow(() => readConfig(given));
  });
  test("an unknown name that is like no other is refused without a guess", () => {
    assert.equal(
      refusal({ SLIPWAY_COLOUR_OF_SKY: "1" }),
      "SLIPWAY_COLOUR_OF_SKY is not a setting. See --help for all of them.",
    );
  });
  for (const given of ["-1", "65536", "7070.5", "1e3", "0x10", " 7070", "a", "9".repeat(16)]) {
    test(`a port of "${given}" is refused with the range`, () => {
      assert.equal(
        refusal({ SLIPWAY_PORT: given }),
        `SLIPWAY_PORT is "${given}", but must be a whole number from 0 to 65535.`,
      );
    });
  }
  test("a word that is neither true nor false is refused", () => {
    assert.match(
      refusal({ SLIPWAY_SIMULATE_COMPUTE: "yes" }),
      /is "yes", but must be true or false/,
    );
  });
  test("a host for pages of apps is a name of its own", () => {
    const SLIPWAY_PUBLIC_URL = "https://s.example/slipway";
    const of = (host: string) => ({ SLIPWAY_PUBLIC_URL, SLIPWAY_DOMAIN: host });
    const app = { projectId: "p-0123abcd", appName: "web" };
    const own = (host: string) => readConfig(of(host)).appHosts.urlOf("https://s.example", app);
    assert.equal(own("Apps.S.example"), "https://web-p-0123abcd.apps.s.example/");
    assert.equal(own("localhost"), null, "it leads here only on this machine");
    const here = readConfig({}).appHosts.urlOf("http://127.0.0.1:7070", app);
    assert.equal(here, "http://web-p-0123abcd.localhost:7070/");
    for (const host of [
      "S.example",
      "example",
      "apps.example:80",
      "https://apps.example",
      "-",
      "127.0.0.1",
    ]) {
      assert.match(refusal(of(host)), /SLIPWAY_DOMAIN is ".*", but must be a host name/);
    }
  });
  test("the domain of apps is also read by its older name, and both must not differ", () => {
    const parentOf = (environment: Record<string, string>) =>
      readConfig(environment).appHosts.parent;
    const older = { SLIPWAY_APP_PAGES_HOST: "apps.example" };
    assert.equal(parentOf(older), "apps.example");
    assert.equal(parentOf({ ...older, SLIPWAY_DOMAIN: "Apps.example" }), "apps.example");
    assert.match(
      refusal({ ...older, SLIPWAY_DOMAIN: "localhost" }),
      /SLIPWAY_DOMAIN is "localhost" and SLIPWAY_APP_PAGES_HOST, its older name, "apps\.example"/,
    );
  });
  test("name servers are addresses, with or without a port", () => {
    const of = (servers: string) => ({ SLIPWAY_DNS_SERVERS: servers });
    assert.deepEqual(readConfig(of("9.9.9.9, [2620:fe::fe]:5353")).dnsServers, [
      "9.9.9.9",
      "[2620:fe::fe]:5353",
    ]);
    for (const server of [
      "dns.example",
      "9.9.9.9:port",
      "9.9.9.9:99999",
      "9.9.9.9:0",
      "a@9.9.9.9:53",
    ])
      assert.match(refusal(of(server)), /SLIPWAY_DNS_SERVERS has ".*", but must contain IP addr/);
  });
  test("a host that is no name or address is refused", () => {
    assert.match(
      refusal({ SLIPWAY_HOST: "http://x" }),
      /SLIPWAY_HOST is "http:\/\/x", but must be one word/,
    );
  });
  test("a password in the public URL is not shown", () => {
    assert.ok(!refusal({ SLIPWAY_PUBLIC_URL: "https://a:hidden@s.example" }).includes("hidden"));
  });
  test("a choice that does not exist is refused with those that do", () => {
    assert.match(
      refusal({ SLIPWAY_DRIVER: "podman" }),
      /is "podman", but must be one of auto, process, docker/,
    );
    assert.match(
      refusal({ SLIPWAY_LOG_LEVEL: "trace" }),
      /must be one of debug, info, warn, error, silent/,
    );
  });
  for (const given of [
    "s.example",
    "ftp://s.example",
    "https://a:b@s.example",
    "https://s.example?x=1",
    "https://s.example#x",
  ]) {
    test(`a public URL of ${given} is refused`, () => {
      assert.match(
        refusal({ SLIPWAY_PUBLIC_URL: given }),
        /SLIPWAY_PUBLIC_URL is .*must be an http or https URL/,
      );
    });
  }
  for (const given of [
    "https://h/{owner}.git",
    "git://h/{owner}/{repo}",
    "https://h/x/y",
    "https://u:pw@h/{owner}/{repo}",
  ]) {
    test(`a git URL of ${given} is refused without showing it`, () => {
      const message = refusal({ SLIPWAY_GIT_URL: given });
      assert.match(message, /must start with http:\/\/, https:\/\/, ssh:\/\/ or file:\/\//);
      assert.ok(!message.includes("pw"), message);
    });
  }
});

describe("secrets", () => {
  const key = "ab".repeat(32);

  test("a bad secret is refused without showing it", () => {
    assert.ok(!refusal({ SLIPWAY_DATABASE_URL: "mysql://u:hidden@h/d" }).includes("hidden"));
    assert.ok(!refusal({ SLIPWAY_SECRET_KEY: `${key},hidden` }).includes("hidden"));
    assert.ok(!refusal({ SLIPWAY_SECRET_KEY: key.slice(1) }).includes(key.slice(1)));
    refusal({ SLIPWAY_SECRET_KEY: "," });
  });
  test("the settings do not show their secrets when they are printed", () => {
    const config = readConfig({
      SLIPWAY_DATABASE_URL: "postgres://u:hidden@h/d",
      SLIPWAY_SECRET_KEY: `${key}, ${"cd".repeat(32)}`,
    });
    for (const shown of [
      JSON.stringify(config),
      inspect(config, { depth: 9 }),
      `${config.databaseUrl}`,
    ]) {
      assert.ok(!shown.includes("hidden") && !shown.includes(key), shown);
    }
    assert.equal(config.databaseUrl?.reveal(), "postgres://u:hidden@h/d");
    assert.deepEqual(
      config.secretKeys?.map((one) => one.reveal()),
      [key, "cd".repeat(32)],
    );
  });
});

describe("the table", () => {
  test("every default is one that would be accepted if it were given", () => {
    const given = Object.entries(settingTable).flatMap(([name, row]) =>
      row.default === null ? [] : [[name, row.default]],
    );
    assert.deepEqual(readConfig(Object.fromEntries(given)), readConfig({}));
  });
  test("the help and the page of settings name every setting with its sentence", () => {
    const help = helpText().replace(/\s+/g, " ");
    const page = readFileSync(new URL("../../docs/settings.md", import.meta.url), "utf8");
    for (const [name, { about }] of Object.entries(settingTable)) {
      assert.ok(help.includes(name) && help.includes(about), name);
      assert.ok(page.includes(`| \`${name}\` |`) && page.includes(about), name);
      assert.match(about, /^[A-Z].*\.$/, `${name} is described in a sentence`);
    }
  });
  test("no line of the help is wider than 100 columns, but for a heading", () => {
    const wide = helpText()
      .split("\n")
      .filter((line) => line.startsWith("      ") && line.length > 100);
    assert.deepEqual(wide, []);
  });
});
