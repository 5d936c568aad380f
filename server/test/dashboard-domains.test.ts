// The page of domains in a real browser, with a real name server. Without a Chromium on the machine
// this is skipped, and says so.
import "./support/leftovers.ts";
import { describe, test } from "node:test";
import { AppHosts } from "#lib/app-hosts.ts";
import { addApp } from "./dashboard-app-stage.ts";
import { clickNamed, startProjectStage } from "./dashboard-project-stage.ts";
import { startDnsServer } from "./support/dns-server.ts";
import { withoutBrowser } from "./support/page-stage.ts";
import { until } from "./support/until.ts";

const name = "shop.example.org";

describe("the page of domains", { skip: withoutBrowser }, () => {
  test("adds a domain with the record to create, checks it, and removes it after a question", async (t) => {
    const dns = await startDnsServer(t);
    const stage = await startProjectStage(t, {
      settings: { dnsServers: [dns.address], appHosts: new AppHosts("apps.example.net") },
    });
    const { api, call, pages, open } = stage;
    await addApp(stage, "my-app");
    const page = await open(`${pages}/apps/my-app/domains`);
    await page.shows("The app has no domains.");
    await page.type("Domain", "*.example.org");
    await page.click("Add it");
    await page.shows("add each name that the app is to answer on");
    await page.type("Domain", name);
    await page.click("Add it");
    const host = `my-app-${api.projectId}.apps.example.net`;
    await page.shows(`${name}. CNAME ${host}.`);
    await page.shows(`_slipway-challenge.${name}. TXT`);
    await clickNamed(page, `Check now: ${name}`);
    await page.shows(`${name} has no CNAME record`);
    dns.names.set(name, { CNAME: host });
    await clickNamed(page, `Check now: ${name}`);
    await page.shows(`${name} is validated.`);
    await until(
      "the record is no longer asked for",
      async () => !(await page.text()).includes("Create this record"),
    );
    await clickNamed(page, `Remove ${name}`);
    await page.click("Remove now");
    await page.shows("The app has no domains.");
    await until(
      "it is removed",
      async () => (await call("GET", "/apps/my-app/domains")).length === 0,
    );
  });
});
