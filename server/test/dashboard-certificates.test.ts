// Certificates in the dashboard, in a real browser: all of them for operators, and that of an app's
// domain for its people. One test has an authority, pebble, that issues one and refuses another.
import "./support/leftovers.ts";
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { choose, clickNamed } from "./dashboard-project-stage.ts";
import type { Page } from "./support/browser.ts";
import {
  acmeSettings,
  daysFromNow,
  heldUntil,
  insertCertificate,
} from "./support/certificate-rows.ts";
import { startGitServer } from "./support/git-server.ts";
import { temporaryFolder } from "./support/folder.ts";
import { lookAtAll } from "./support/every-look.ts";
import { startManagementApi } from "./support/management-api.ts";
import { openPages, withoutBrowser } from "./support/page-stage.ts";
import { noPebble, startPebble } from "./support/pebble.ts";
import { startPlatform } from "./support/platform-process.ts";
import { addProvenDomain } from "./support/proven-domain.ts";
import { TestAuthority } from "./support/tls-files.ts";
import { until } from "./support/until.ts";

const own = "slipway.example.org";
const path = "/dashboard/operator/certificates";

async function useToken(page: Page, token: string): Promise<void> {
  await page.click("Use a service account token");
  await page.type("Token", token);
  await page.click("Use this token");
}

describe("certificates in the dashboard", { skip: withoutBrowser }, () => {
  test("are whole in every look, those in trouble first; are renewed, and revoked after a question", async (t) => {
    const api = await startManagementApi(t, { settings: acmeSettings });
    const { db, baseUrl } = api;
    const page = await (await openPages(t, baseUrl))(path);
    await useToken(page, await api.issue({ kind: "operator" }));
    await page.shows("SLIPWAY_ACME_EMAIL");
    await lookAtAll(page, {
      "certificates-none": { url: baseUrl + path, text: "SLIPWAY_ACME_EMAIL" },
    });

    const held = heldUntil(daysFromNow(60.5));
    const last_error = `<img src=x onerror="window.hacked=1"> ${"long".repeat(60)}`;
    const failure = { failures: 3, failing_since: daysFromNow(-2), last_error };
    await insertCertificate(db, { name: own, ...held });
    const tooMany = "25 new names in 7 days";
    await insertCertificate(db, { name: "waiting.example.org", last_error: tooMany });
    await insertCertificate(db, { name: `${"w".repeat(60)}.example.org`, ...held, ...failure });
    await insertCertificate(db, { name: "*.ended.example.org", ...heldUntil(daysFromNow(-3)) });
    await insertCertificate(db, { name: "gone.example.org", ...held, revocation: "superseded" });
    await lookAtAll(page, {
      certificates: {
        url: baseUrl + path,
        text: "60 days left",
        act: (one) => clickNamed(one, `Revoke the certificate of ${own}`),
      },
      "platform-certificates": { url: `${baseUrl}/dashboard/operator/platform`, text: "2 failing" },
    });

    await page.click("2 failing");
    await page.shows(`Not requested yet: ${tooMany}. Next try: `);
    const states = "[...document.querySelectorAll('.state')].map((one) => one.textContent)";
    assert.deepEqual(await page.evaluate(states), [
      "has ended",
      "being revoked",
      "failing",
      "valid",
      "being requested",
    ]);
    await clickNamed(page, `Renew the certificate of ${own}`);
    await page.shows(`A certificate for ${own} is requested.`);
    await clickNamed(page, `Revoke the certificate of ${own}`);
    await choose(page, "Reason", "key_compromise");
    await page.click("Revoke now");
    await page.shows(`The certificate of ${own} is being revoked`);
    const row = db.selectFrom("certificates").selectAll().where("name", "=", own);
    const { revocation, next_try_at: nextTryAt } = await row.executeTakeFirstOrThrow();
    assert.equal(revocation, "key_compromise");
    assert.ok(nextTryAt < daysFromNow(1));
  });

  test(
    "tell why an authority issues none for a domain, to operators and on the page of the app",
    { skip: noPebble },
    async (t) => {
      const pebble = await startPebble(t);
      // Until it gets certificates, it is managed by an address that needs no DNS.
      const platform = await startPlatform(t, {
        SLIPWAY_PORT: pebble.httpPort,
        SLIPWAY_DNS_SERVERS: pebble.nameServer,
        SLIPWAY_GIT_URL: (await startGitServer(t)).urlTemplate,
      });
      const { baseUrl, projectId, operatorToken, serviceAccountToken } = platform.bootstrap;
      const apps = `/v2/projects/${projectId}/apps`;
      const body = { name: "my-app", gitRepo: "acme/nothing" };
      assert.equal((await platform.api("POST", `${apps}/git`, body)).status, 201);
      const domain = "shop.example.org";
      // It leads elsewhere, where nobody answers.
      await pebble.changeNames("add-a", { host: `${domain}.`, addresses: ["127.0.0.2"] });
      await addProvenDomain(platform, pebble, { app: "my-app", domain });
      await platform.end("SIGTERM");
      // The operator has a certificate for another name.
      const authority = new TestAuthority(temporaryFolder(t, "tls"));
      const files = authority.sign("given", ["given.example.org"]);
      const given = {
        SLIPWAY_TLS_CERTIFICATE: files.certificateFile,
        SLIPWAY_TLS_KEY: files.keyFile,
      };
      await platform.restart({ environment: { ...pebble.settings(own), ...given } });
      await until("one is issued, and the other one refused", async () => {
        const output = platform.output();
        return /certificate was issued/.test(output) && /could not be issued/.test(output);
      });

      const open = await openPages(t, baseUrl);
      const operator = await open(path);
      await useToken(operator, operatorToken);
      const why = `could not see that ${domain} leads here`;
      await operator.shows(why);
      await lookAtAll(operator, { "failing-certificate": { url: baseUrl + path, text: why } });
      const texts = "[...document.querySelectorAll('tbody tr')].map((one) => one.textContent)";
      const [first, reason, second] = (await operator.evaluate(texts)) as string[];
      assert.match(first ?? "", /^shop\.example\.org.*failing/);
      assert.match(reason ?? "", /First failed: (?:now|.+ ago)\. Next try: \w/);
      assert.match(second ?? "", /^slipway\.example\.org.*valid.*days left/);

      await operator.shows("In files");
      const rows =
        "[...document.querySelectorAll('section tbody tr')].map((one) => one.textContent)";
      const [row] = (await operator.evaluate(rows)) as string[];
      assert.match(row ?? "", /^given\.example\.orgvalid.* days left.*given.*\.pem$/);

      const person = await open(`/dashboard/projects/${projectId}/apps/my-app/domains`);
      await useToken(person, serviceAccountToken);
      await person.shows("Certificate: failing");
      const url = `${baseUrl}/dashboard/projects/${projectId}/apps/my-app/domains`;
      await lookAtAll(person, { "domain-without-certificate": { url, text: why } });
    },
  );
});
