// Domains of apps through the API, with a real name server: who gets a name, who does not, and what
// becomes of it.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import { AppHosts } from "#lib/app-hosts.ts";
import type { ProjectId } from "#lib/ids.ts";
import { startDnsServer } from "#test/support/dns-server.ts";
import { startManagementApi, type ApiAnswer, type Json } from "#test/support/management-api.ts";

const name = "shop.example.org";
const challenge = `_slipway-challenge.${name}`;

async function stage(t: TestContext) {
  const dns = await startDnsServer(t);
  const api = await startManagementApi(t, {
    settings: { dnsServers: [dns.address], appHosts: new AppHosts("apps.example.net") },
  });
  /** An app of the project, or of another one, and what can be done with its domains. */
  const app = async (appName: string, projectId: ProjectId = api.projectId) => {
    const token = await api.issue({ kind: "service_account", projectId });
    const apps = `/v2/projects/${projectId}/apps`;
    const body = { name: appName, gitRepo: "acme/app" };
    assert.equal((await api.call("POST", `${apps}/git`, { token, body })).status, 201);
    const call = (method: string, path = "", given?: unknown): Promise<ApiAnswer> =>
      api.call(method, `${apps}/${appName}${path}`, { token, body: given });
    return {
      projectId,
      host: `${appName}-${projectId}.apps.example.net`,
      call,
      add: async (given = name): Promise<Json> =>
        (await call("POST", "/domains", { name: given })).body,
      check: async (): Promise<Json> => (await call("POST", `/domains/${name}/check`)).body,
      state: async (): Promise<string | undefined> => {
        const { body: list } = await call("GET", "/domains");
        return (list as { name: string; state: string }[]).find((one) => one.name === name)?.state;
      },
    };
  };
  const move = (column: "pending_since" | "missing_since", days: number) =>
    sql`update app_domains set ${sql.ref(column)} = ${sql.ref(column)} - make_interval(days => ${days})`.execute(
      api.db,
    );
  const actions = async (projectId = api.projectId): Promise<string[]> => {
    const rows = await api.db
      .selectFrom("audit_log")
      .select("action")
      .where("project_id", "=", projectId)
      .where("action", "like", "domain.%")
      .where("outcome", "=", "success")
      .orderBy("id")
      .execute();
    return rows.map(({ action }) => action);
  };
  return { api, dns, app, move, actions };
}

test("a name is proven by a CNAME to the app's own host name, lost when it is gone for a week, and then free", async (t) => {
  const { dns, app, move, actions } = await stage(t);
  const shop = await app("shop");
  const added = await shop.add("SHOP.example.org.");
  assert.deepEqual(
    { name: added.name, state: added.state, cname: added.cname, txtName: added.txt.name },
    { name, state: "Pending", cname: { name, value: shop.host }, txtName: challenge },
  );
  assert.deepEqual(await shop.add(), added, "the same name again changes nothing");
  dns.names.set(name, { CNAME: "slipway.example.org" });
  const early = await shop.check();
  assert.equal(early.state, "Pending");
  assert.match(early.found, /the CNAME record of shop\.example\.org is "slipway\.example\.org"/);
  dns.names.set(name, { CNAME: shop.host });
  const proven = await shop.check();
  assert.deepEqual([proven.state, proven.found, proven.failsAt], ["Validated", null, null]);
  dns.names.delete(name);
  const missing = await shop.check();
  assert.equal(missing.state, "Validated");
  assert.match(missing.found, /shop\.example\.org has no CNAME record/);
  assert.notEqual(missing.failsAt, null);
  await move("missing_since", 8);
  const failed = await shop.check();
  assert.deepEqual([failed.state, failed.nextCheckAt], ["Failed", null]);
  dns.names.set(name, { CNAME: shop.host });
  assert.equal((await shop.check()).state, "Validated", "asking again begins anew");
  assert.equal((await shop.call("DELETE", `/domains/${name}`)).status, 200);
  assert.equal(await shop.state(), undefined);
  assert.equal((await shop.call("DELETE", `/domains/${name}`)).status, 404);
  assert.equal((await shop.call("POST", `/domains/${name}/check`)).status, 404);
  assert.equal((await shop.call("DELETE", "/domains/%00")).status, 404);
  assert.deepEqual(
    (await actions()).filter((action) => action !== "domain.check"),
    ["domain.add", "domain.validate", "domain.fail", "domain.validate", "domain.remove"],
  );
});

test("a claim without a proof fails after two days, and never keeps the owner from the name", async (t) => {
  const { api, dns, app, move } = await stage(t);
  const squatter = await app("squat");
  const owner = await app("shop", await api.addProject("second"));
  await squatter.add();
  const { txt } = await owner.add();
  assert.notEqual(txt.value, (await squatter.add()).txt.value);
  dns.names.set(challenge, { TXT: ["unrelated", txt.value] });
  assert.equal((await squatter.check()).state, "Pending");
  assert.equal((await owner.check()).state, "Validated");
  // A name that leads to the platform, and even to the app of the owner, is no proof for others.
  dns.names.set(name, { CNAME: owner.host });
  assert.equal((await squatter.check()).state, "Pending");
  await move("pending_since", 2);
  assert.equal((await squatter.check()).state, "Failed");
  assert.equal(await owner.state(), "Validated");
});

test("a proven name passes to another project only when that one proves it and the first one's record is gone", async (t) => {
  const { api, dns, app, actions } = await stage(t);
  const first = await app("shop");
  const second = await app("shop", await api.addProject("second"));
  const { txt: firstText } = await first.add();
  const { txt: secondText } = await second.add();
  dns.names.set(challenge, { TXT: firstText.value });
  assert.equal((await first.check()).state, "Validated");
  dns.names.set(challenge, { TXT: [firstText.value, secondText.value] });
  const held = await second.check();
  assert.equal(held.state, "Pending");
  assert.match(held.found, /belongs to another app, whose own record may still be there/);
  dns.names.set(challenge, { TXT: secondText.value });
  await Promise.all([second.check(), second.check()]);
  assert.deepEqual([await first.state(), await second.state()], ["Failed", "Validated"]);
  assert.ok((await actions()).includes("domain.fail"), "the first project can read why");
  assert.deepEqual(
    (await actions(second.projectId)).filter((one) => one === "domain.validate"),
    ["domain.validate"],
  );
});

test("a deleted app has no domains, and its names are free at once", async (t) => {
  const { api, dns, app } = await stage(t);
  const first = await app("shop");
  dns.names.set(name, { CNAME: first.host });
  const { txt } = await first.add();
  dns.names.set(challenge, { TXT: txt.value });
  assert.equal((await first.check()).state, "Validated");
  const second = await app("shop", await api.addProject("second"));
  const { txt: secondText } = await second.add();
  dns.names.set(challenge, { TXT: [txt.value, secondText.value] });
  assert.equal((await second.check()).state, "Pending");
  assert.equal((await first.call("DELETE")).status, 200);
  assert.equal((await second.check()).state, "Validated");
  const again = await app("shop");
  assert.equal(await again.state(), undefined);
});

test("DNS that stays silent takes nothing away, and is said", async (t) => {
  const { dns, app } = await stage(t);
  const shop = await app("shop");
  dns.names.set(name, { CNAME: shop.host });
  await shop.add();
  assert.equal((await shop.check()).state, "Validated");
  dns.names.set(name, null);
  const silent = await shop.check();
  assert.deepEqual([silent.state, silent.failsAt], ["Validated", null]);
  assert.match(silent.found, /DNS did not answer what CNAME records shop\.example\.org has/);
});

test("names of the platform and too many names are refused, and so are members who may only read", async (t) => {
  const { api, app } = await stage(t);
  const shop = await app("shop");
  const refusal = await shop.call("POST", "/domains", { name: shop.host });
  assert.equal(refusal.status, 400);
  assert.match(refusal.body.message, /apps\.example\.net and all names below it/);
  const adds = Array.from({ length: 102 }, (_, index) =>
    shop.call("POST", "/domains", { name: `n${index}.example.org` }),
  );
  const statuses = (await Promise.all(adds)).map(({ status }) => status);
  assert.deepEqual(
    [201, 409].map((status) => statuses.filter((one) => one === status).length),
    [100, 2],
  );
  const token = await api.issue({ kind: "service_account", role: "billing" });
  const path = `/v2/projects/${api.projectId}/apps/shop/domains`;
  assert.equal((await api.call("POST", path, { token, body: { name } })).status, 403);
});
