// `slipway domains` against a real management API and a real name server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { AppHosts } from "#lib/app-hosts.ts";
import { startCliStage } from "./support/cli-stage.ts";
import { startDnsServer } from "./support/dns-server.ts";

const name = "shop.example.org";

test("domains are added with the record to create, checked, listed and removed", async (t) => {
  const dns = await startDnsServer(t);
  const { done, refused, projectId } = await startCliStage(t, {
    dnsServers: [dns.address],
    appHosts: new AppHosts("apps.example.net"),
  });
  const host = `hello-${projectId}.apps.example.net`;
  assert.match(
    (await done("domains", "list", "hello")).stderr,
    /slipway domains add <app> <domain>/,
  );
  assert.match(
    await refused(2, "domains", "add", "hello", "https://shop.example.org"),
    /name is "https:\/\/shop\.example\.org", but must be a host name .*, without scheme/,
  );
  const added = (await done("domains", "add", "hello", "Shop.example.org")).stderr;
  assert.match(added, /^shop\.example\.org is not proven yet\.\nCreate this record in DNS:\n/);
  assert.ok(added.includes(`  ${name}  CNAME  ${host}\n`), added);
  assert.match(added, /\n {2}_slipway-challenge\.shop\.example\.org {2}TXT {2}[0-9a-f]{32}\n/);
  dns.names.set(name, { CNAME: "elsewhere.example" });
  assert.match(
    (await done("domains", "check", "hello", name)).stderr,
    /not proven yet\.\nFound instead: the CNAME record of shop\.example\.org is "elsewhere\.example"; /,
  );
  assert.match(
    (await done("domains", "list", "hello")).stdout,
    /^DOMAIN +STATE +CERTIFICATE +CHECKED +FOUND\nshop\.example\.org +Pending +- +\S+ +the CNAME record/,
  );
  dns.names.set(name, { CNAME: host });
  assert.equal(
    (await done("domains", "check", "hello", name)).stderr,
    "The app answers on shop.example.org.\n",
  );
  dns.names.delete(name);
  assert.match(
    (await done("domains", "check", "hello", name)).stderr,
    /^The app answers on shop\.example\.org until \d{4}-\S+: its record is gone\.\nFound instead: /,
  );
  await refused(2, "domains", "remove", "hello", name);
  assert.match(
    (await done("domains", "remove", "hello", name, "--yes")).stderr,
    /no longer answers on it/,
  );
  const gone = await refused(4, "domains", "check", "hello", name);
  assert.match(gone, /The app has no domain shop\.example\.org/);
  assert.match(gone, /slipway domains list/);
});
