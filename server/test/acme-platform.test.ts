// A platform that gets its certificates by itself, from pebble.
import assert from "node:assert/strict";
import { hash, X509Certificate } from "node:crypto";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { connect, type DetailedPeerCertificate } from "node:tls";
import { findBrowser, startBrowser } from "./support/browser.ts";
import { temporaryFolder } from "./support/folder.ts";
import { freePorts } from "./support/free-ports.ts";
import { startGitServer } from "./support/git-server.ts";
import { deployLoaded } from "./support/loaded-app.ts";
import { noPebble, startPebble } from "./support/pebble.ts";
import { startPlatform, type PlatformProcess } from "./support/platform-process.ts";
import { addProvenDomain } from "./support/proven-domain.ts";
import { commandsAt } from "./support/slipway-command.ts";
import { until } from "./support/until.ts";

const name = "slipway.example.org";
const browser = findBrowser();
const noBrowser = "missing" in browser ? browser.missing : false;

/** The certificate that a client gets for the name; null: the handshake fails. */
function certificateAt(port: string, servername: string, ca: string) {
  return new Promise<DetailedPeerCertificate | null>((resolve) => {
    const socket = connect({ host: "127.0.0.1", port: Number(port), servername, ca }, () => {
      resolve(socket.getPeerCertificate(true));
      socket.destroy();
    });
    socket.on("error", () => resolve(null));
  });
}

type Look = { readonly port: string; readonly servername: string; readonly ca: string };

/** Waits until clients get a certificate for the name, other than the one with that number. */
async function certificateOf(
  { port, servername, ca }: Look,
  but?: string,
): Promise<DetailedPeerCertificate> {
  const found = await until(`there is a certificate of ${servername}`, async () => {
    const one = await certificateAt(port, servername, ca);
    return one === null || one.serialNumber === but ? null : one;
  });
  return found;
}

for (const challenge of ["http-01", "tls-alpn-01"]) {
  test(
    `a platform gets a certificate by ${challenge}, and has it after a restart`,
    { skip: noPebble },
    async (t) => {
      const pebble = await startPebble(t);
      const platform = await startPlatform(t, {
        ...pebble.settings(name),
        SLIPWAY_ACME_CHALLENGE: challenge,
        SLIPWAY_REDIRECT_TO_HTTPS: "true",
      });
      const look = { port: pebble.tlsPort, servername: name, ca: await pebble.root() };
      const first = await certificateOf(look);
      assert.equal(first.subjectaltname, `DNS:${name}`);
      assert.doesNotMatch(platform.output(), /could not be issued/);
      // A client without a name asks as an authority does: it is refused, and nothing else happens.
      const nameless = connect({ port: Number(pebble.tlsPort), ALPNProtocols: ["acme-tls/1"] });
      await new Promise((resolve) => nameless.once("error", resolve));
      const text = `http://127.0.0.1:${pebble.httpPort}/.well-known/acme-challenge/unknown`;
      assert.equal((await fetch(text)).status, 404);
      await platform.end("SIGKILL");
      await platform.restart();
      const again = await certificateOf(look);
      assert.equal(again.serialNumber, first.serialNumber);
      assert.equal(platform.output().split("a TLS certificate was issued").length, 2);
    },
  );
}

test(
  "a hook proves the wildcard of apps by DNS records; it gets none of the platform's secrets",
  { skip: noPebble },
  async (t) => {
    const folder = temporaryFolder(t, "hook");
    const pebble = await startPebble(t);
    const hook = join(folder, "hook.sh");
    const path = '$([ "$DNS_ACTION" = present ] && echo set-txt || echo clear-txt)';
    const sent = `{\\"host\\":\\"$DNS_RECORD_NAME.\\",\\"value\\":\\"$DNS_RECORD_VALUE\\"}`;
    writeFileSync(
      hook,
      `#!/bin/sh\nenv >> ${folder}/seen\nexec curl -sS --fail --max-time 20 -d "${sent}" ${pebble.namesUrl}/${path}\n`,
    );
    chmodSync(hook, 0o755);
    await startPlatform(t, {
      ...pebble.settings(name),
      SLIPWAY_DOMAIN: "apps.example.net",
      SLIPWAY_SECRET_KEY: "ab".repeat(32),
      SLIPWAY_ACME_DNS: "hook",
      SLIPWAY_ACME_DNS_HOOK: hook,
      SLIPWAY_ACME_DNS_SERVERS: pebble.nameServer,
    });
    const look = { port: pebble.tlsPort, ca: await pebble.root() };
    const app = await certificateOf({ ...look, servername: "shop-p-0123abcd.apps.example.net" });
    assert.equal(app.subjectaltname, "DNS:*.apps.example.net");
    const own = await certificateOf({ ...look, servername: name });
    assert.equal(own.subjectaltname, `DNS:${name}`);
    const seen = readFileSync(join(folder, "seen"), "utf8");
    assert.match(seen, /^DNS_RECORD_NAME=_acme-challenge\.apps\.example\.net$/m);
    assert.match(seen, /^DNS_ACTION=cleanup$/m);
    assert.doesNotMatch(seen, /SLIPWAY_|abababab/);
  },
);

/** The command line with the token of the operator. */
function operatorCommands(t: TestContext, platform: PlatformProcess, port: string) {
  const { operatorToken } = platform.bootstrap;
  const env = { SLIPWAY_URL: `http://127.0.0.1:${port}`, SLIPWAY_TOKEN: operatorToken };
  const slipway = commandsAt(t, { env });
  return async (...words: string[]): Promise<string> => {
    const { code, stdout, stderr } = await slipway(words).ended;
    assert.equal(code, 0, stderr);
    return stdout + stderr;
  };
}

test(
  "an operator renews and revokes a certificate, and sees why one is not issued",
  { skip: noPebble },
  async (t) => {
    const pebble = await startPebble(t, {
      externalAccount: {
        keyId: "known",
        hmacKey: "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldC0",
      },
    });
    const platform = await startPlatform(t, {
      ...pebble.settings(name),
      SLIPWAY_ACME_EXTERNAL_KEY_ID: "known",
      SLIPWAY_ACME_EXTERNAL_HMAC_KEY: "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldC0",
    });
    const look = { port: pebble.tlsPort, servername: name, ca: await pebble.root() };
    const slipway = operatorCommands(t, platform, pebble.httpPort);
    const first = await certificateOf(look);
    assert.match(await slipway("certificates"), /slipway\.example\.org +valid/);
    await slipway("certificates", "renew", name);
    const second = await certificateOf(look, first.serialNumber);
    assert.equal(await pebble.statusOf(first.serialNumber), "Valid");
    const why = ["--reason", "key_compromise", "--yes"];
    await slipway("certificates", "revoke", name, ...why);
    await certificateOf(look, second.serialNumber);
    assert.equal(await pebble.statusOf(second.serialNumber), "Revoked");
    // The name leads elsewhere now, where nobody answers.
    await pebble.changeNames("add-a", { host: `${name}.`, addresses: ["127.0.0.2"] });
    await slipway("certificates", "renew", name);
    await until("the failure is told", () => /could not be issued/.test(platform.output()));
    assert.match(await slipway("certificates"), /failing.*could not see that slipway\.example/);
    assert.ok((await certificateAt(look.port, name, look.ca)) !== null, "the old one stays");
  },
);

test(
  "of two platforms with one name, the one that it leads to gets a certificate",
  { skip: noPebble },
  async (t) => {
    const pebble = await startPebble(t);
    await startPlatform(t, pebble.settings(name));
    const ca = await pebble.root();
    const look = { port: pebble.tlsPort, servername: name, ca };
    const first = await certificateOf(look);
    const [port = "", tlsPort = ""] = await freePorts(2);
    const other = await startPlatform(t, {
      ...pebble.settings(name),
      SLIPWAY_PORT: port,
      SLIPWAY_TLS_PORT: tlsPort,
    });
    await until("the failure is logged", () => /could not be issued/.test(other.output()));
    assert.match(other.output(), /could not see that slipway\.example\.org leads here.*404/);
    assert.equal(await certificateAt(tlsPort, name, ca), null);
    assert.equal((await certificateOf(look)).serialNumber, first.serialNumber);
  },
);

test(
  "a browser that trusts the authority opens the dashboard and an app by their names over HTTP/2",
  { skip: noPebble || noBrowser },
  async (t) => {
    assert.ok("program" in browser);
    const pebble = await startPebble(t);
    const git = await startGitServer(t);
    // Until it gets certificates, it is managed by an address that needs no DNS.
    const platform = await startPlatform(t, {
      SLIPWAY_PORT: pebble.httpPort,
      SLIPWAY_GIT_URL: git.urlTemplate,
      SLIPWAY_DNS_SERVERS: pebble.nameServer,
    });
    await deployLoaded(platform, git, { maxReplicaCount: 1, cooldownPeriodSeconds: 600 });
    const domain = "shop.example.org";
    await addProvenDomain(platform, pebble, { app: "loaded", domain });
    await platform.end("SIGTERM");
    await platform.restart({ environment: pebble.settings(name) });
    const look = { port: pebble.tlsPort, ca: await pebble.root() };
    // The one that the root has signed: everything below it is trusted.
    const { issuerCertificate } = await certificateOf({ ...look, servername: name });
    const app = await until("there is a certificate of the domain", async () => {
      const one = await certificateAt(look.port, domain, look.ca);
      return one?.subjectaltname === `DNS:${domain}` ? one : null;
    });
    const keyOf = ({ raw }: DetailedPeerCertificate): string => {
      const key = new X509Certificate(raw).publicKey.export({ type: "spki", format: "der" });
      return hash("sha256", key, "base64");
    };
    const keys = [issuerCertificate, app.issuerCertificate].map(keyOf);
    const chromium = await startBrowser(t, browser.program, [
      "--host-resolver-rules=MAP *.example.org 127.0.0.1",
      `--ignore-certificate-errors-spki-list=${keys.join(",")}`,
    ]);
    for (const [url, text] of [
      [`https://${name}:${pebble.tlsPort}/dashboard`, "Sign in"],
      [`https://${domain}:${pebble.tlsPort}/dashboard`, "v1"],
    ] as const) {
      const page = await chromium.open();
      await page.goTo(url);
      await page.shows(text);
      const protocols = await page.evaluate(
        "[...new Set(performance.getEntries().map((entry) => entry.nextHopProtocol).filter(Boolean))]",
      );
      assert.deepEqual(protocols, ["h2"], url);
    }
  },
);
