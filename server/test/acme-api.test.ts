// What the API says of certificates that the platform gets by itself: to operators of all, and to
// the people of an app of those of its domains.
import "./support/leftovers.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  acmeSettings,
  daysFromNow,
  heldUntil,
  insertCertificate,
} from "./support/certificate-rows.ts";
import { startManagementApi, type ApiUnderTest, type Json } from "./support/management-api.ts";

const name = "shop.example.org";
const failure = { failures: 2, failing_since: daysFromNow(-1), last_error: "too many" };

/** An app with the domain, which is in this state. */
async function addDomain(api: ApiUnderTest, state: "Validated" | "Pending") {
  const projectId = await api.addProject("with a domain");
  const token = await api.issue({ kind: "service_account", projectId });
  const apps = `/v2/projects/${projectId}/apps`;
  const body = { name: "shop", gitRepo: "acme/shop" };
  assert.equal((await api.call("POST", `${apps}/git`, { token, body })).status, 201);
  const added = await api.call("POST", `${apps}/shop/domains`, { token, body: { name } });
  assert.equal(added.status, 201);
  await api.db
    .updateTable("app_domains")
    .set({ state, validated_at: state === "Validated" ? new Date() : null })
    .where("project_id", "=", projectId)
    .execute();
  return async (): Promise<Json> => {
    const [domain] = (await api.call("GET", `${apps}/shop/domains`, { token })).body;
    return domain.certificate;
  };
}

test("operators get all certificates in pages, first those with which something is wrong", async (t) => {
  const api = await startManagementApi(t);
  const { db } = api;
  const token = await api.issue({ kind: "operator" });
  await insertCertificate(db, { name: "a.example.org", ...heldUntil(daysFromNow(60)) });
  await insertCertificate(db, { name: "b.example.org" });
  await insertCertificate(db, {
    name: "*.c.example.org",
    ...heldUntil(daysFromNow(9)),
    ...failure,
  });
  await insertCertificate(db, { name: "d.example.org", ...heldUntil(daysFromNow(-1)) });
  const revoked = { ...heldUntil(daysFromNow(60)), revocation: "superseded" };
  await insertCertificate(db, { name: "e.example.org", ...revoked });
  const found: [string, string][] = [];
  let path = "/v2/operator/certificates?pageSize=2";
  for (let next: string | undefined = ""; next !== undefined;) {
    const query = next === "" ? "" : `&nextToken=${next}`;
    const { status, body } = await api.call("GET", path + query, { token });
    assert.equal(status, 200, JSON.stringify(body));
    for (const one of body.items) found.push([one.name, one.state]);
    next = body.nextToken;
  }
  assert.deepEqual(found, [
    ["*.c.example.org", "failing"],
    ["d.example.org", "ended"],
    ["e.example.org", "revoking"],
    ["a.example.org", "valid"],
    ["b.example.org", "waiting"],
  ]);
  path = "/v2/operator/certificates";
  const [first] = (await api.call("GET", path, { token })).body.items;
  assert.equal(first.failing_since, failure.failing_since.toISOString());
  for (const wrong of ["2-a.example.org", "a.example.org", "1-"])
    assert.equal((await api.call("GET", `${path}?nextToken=${wrong}`, { token })).status, 400);
});

test("an app learns of the certificate of a domain that it has proven, not of one that it claims", async (t) => {
  const api = await startManagementApi(t, { settings: acmeSettings });
  const provenOne = await addDomain(api, "Validated");
  const claimed = await addDomain(api, "Pending");
  assert.equal(await provenOne(), null, "it is not requested yet");
  await insertCertificate(api.db, { name, ...failure });
  const certificate = await provenOne();
  assert.deepEqual(
    [certificate.state, certificate.endsAt, certificate.lastError],
    ["failing", null, "too many"],
  );
  assert.equal(await claimed(), null);
});

test("a platform that requests no certificates says nothing of those of an earlier start", async (t) => {
  const api = await startManagementApi(t);
  const certificateOf = await addDomain(api, "Validated");
  await insertCertificate(api.db, { name, ...heldUntil(daysFromNow(60)) });
  assert.equal(await certificateOf(), null);
});
