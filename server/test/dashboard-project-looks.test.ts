// Every page of a project with hostile and long names, looked at in light, dark and on a phone; and
// without anything in it. Without a Chromium on the machine these tests are skipped, and say so.
import "./support/leftovers.ts";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { Role } from "@slipway/contract/words.ts";
import type { AppId } from "#lib/ids.ts";
import { spend } from "./budgets-stage.ts";
import {
  chosenFiles,
  clickNamed,
  hostileName,
  pick,
  ownersEmail,
  startProjectStage,
  type ProjectStage,
} from "./dashboard-project-stage.ts";
import { lookAtAll, type Sight } from "./support/every-look.ts";
import { volumesOf } from "./support/management-platform.ts";
import { withoutBrowser } from "./support/page-stage.ts";
import { insertDelivery } from "./support/webhook-rows.ts";

const long = "W".repeat(100);
const emails = {
  long: `${"w".repeat(60)}@${"example".repeat(8)}.test`,
  member: "member@example.test",
};
const fileNames = [
  "<img src=x onerror=\"window.hacked='file'\">.txt",
  "line\nbreak\u001b[31m\u202egnp.exe",
  "x".repeat(255),
  " leading and trailing ",
  "back\\slash?query#hash%2e&.txt",
  "-rf",
];

async function fill(stage: ProjectStage): Promise<void> {
  const { api, call, folder, addMember } = stage;
  await addMember({ email: emails.long, name: long, role: "admin" });
  await addMember({ email: emails.member, name: hostileName, role: "member" });
  for (const role of ["member", "billing"] satisfies Role[])
    await call("POST", "/invitations", { email: `new-${role}@example.test`, role });
  for (const name of fileNames) writeFileSync(join(folder, name), name);
  mkdirSync(join(folder, `folder ${long}`, `in it ${long}`), { recursive: true });
  await call("PATCH", "/secrets", { API_TOKEN: hostileName, ["L".repeat(200)]: long.repeat(10) });
  await call("POST", "/apps/git", { name: "my-app", gitRepo: "a/b" });
  const place = { db: api.db, projectId: api.projectId, appId: `${api.projectId}-my-app` as AppId };
  await insertDelivery(place, { url: `https://example.org/${long}/<b>bold</b>` });
  await insertDelivery(place, { url: "https://example.org/good", state: "delivered" });
  await insertDelivery(place, { url: "https://example.org/waiting", state: "pending" });
  for (const name of [hostileName, long]) {
    const { id } = await call("POST", "/service-accounts", { name, role: "member" });
    await call("POST", `/service-accounts/${id}/rotate`, {});
    await call("POST", "/api-keys", { name, readable: true });
  }
  const token = await api.issue({ kind: "operator" });
  for (const [code, name] of [
    ["A".repeat(100), hostileName],
    ["SHORT", long],
  ] as const) {
    const coupon = {
      code,
      name,
      coupon_type: "fixed_amount",
      amount_cents: 500,
      amount_currency: "USD",
    };
    await api.call("POST", "/v2/operator/coupons", { token, body: coupon });
    await call("POST", "/billing/coupons/apply", { coupon_code: code });
  }
  const month = new Date().toISOString().slice(0, 7);
  for (const app of ["my-app", "other"]) await spend(api.db, api, { cents: 1_234, app, month });
  await call("PUT", "/budget", {
    amount_cents: 2_000,
    stop: true,
    webhook_url: `https://example.org/${long}/<b>`,
  });
}

describe("the pages of a project", { skip: withoutBrowser }, () => {
  test("hold hostile and long names in every look, and axe finds nothing", async (t) => {
    const stage = await startProjectStage(t, { settings: volumesOf(50_000_000_000) });
    await fill(stage);
    const { api, pages, call, open } = stage;
    const base = api.baseUrl + pages;
    const { items } = await call("GET", "/webhook-deliveries?state=failed");
    const month = new Date().toISOString().slice(0, 7);
    const sights: Record<string, Sight> = {
      members: {
        url: `${base}/members`,
        text: hostileName,
        act: (page) => clickNamed(page, `Remove ${hostileName}`),
      },
      volumes: {
        url: `${base}/volumes`,
        text: "-rf",
        act: (page) => clickNamed(page, "Remove -rf"),
      },
      uploads: {
        url: `${base}/volumes`,
        text: "-rf",
        act: async (page) => {
          await pick(
            page,
            chosenFiles(t, {
              "-rf": "again",
              [`folder ${long}`]: "not a folder",
              [fileNames[0] ?? ""]: "",
            }),
          );
          await page.shows("Replace what is there?");
          await page.click("Upload and replace");
          await page.shows("2 of 3 files uploaded, 1 failed");
        },
      },
      replacing: {
        url: `${base}/volumes`,
        text: "-rf",
        act: async (page) => {
          await pick(page, chosenFiles(t, { "-rf": "again", ["x".repeat(255)]: "" }));
          await page.shows("Replace what is there?");
        },
      },
      folder: { url: `${base}/volumes?dir=folder ${long}`, text: "in it" },
      refused: { url: `${base}/volumes?dir=..`, text: "dir is" },
      "project-secrets": {
        url: `${base}/secrets`,
        text: "API_TOKEN",
        act: (page) => page.click("Show"),
      },
      webhooks: { url: `${base}/webhooks`, text: "https://example.org/good" },
      delivery: { url: `${base}/webhooks?delivery=${items[0].id}`, text: "oh no" },
      "rotated-keys": { url: `${base}/keys`, text: "valid, too" },
      rotation: {
        url: `${base}/keys`,
        text: "valid, too",
        act: (page) => clickNamed(page, `Rotate ${hostileName}`),
      },
      billing: { url: `${base}/billing?month=${month}`, text: "Save as CSV" },
      budget: {
        url: `${base}/billing`,
        text: "(123 %)",
        act: (page) => clickNamed(page, "Change the budget of the whole project"),
      },
      "project-settings": { url: `${base}/settings`, text: "Delete the project" },
      "new-project": { url: `${api.baseUrl}/dashboard/projects/new`, text: "Create the project" },
      "charged-usage": { url: `${base}/usage`, text: "To pay so far" },
    };
    const reader = await open("/dashboard");
    await reader.shows("Sign out");
    await lookAtAll(reader, sights);
  });

  test("say what to do where nothing is there, and what a role may not do", async (t) => {
    const { api, pages, open, openAs, addMember } = await startProjectStage(t);
    await addMember({ email: emails.member, name: "Mia Member", role: "member" });
    const base = api.baseUrl + pages;
    const sights: Record<string, Sight> = {
      "empty-members": { url: `${base}/members`, text: "No invitation is open." },
      "empty-volumes": { url: `${base}/volumes`, text: "Upload files, or let an app write some." },
      "empty-secrets": { url: `${base}/secrets`, text: "No secrets yet." },
      "empty-webhooks": { url: `${base}/webhooks`, text: "No deliveries yet." },
      "empty-billing": { url: `${base}/billing`, text: "No coupon is applied." },
    };
    const reader = await open("/dashboard");
    await reader.shows("Sign out");
    await lookAtAll(reader, sights);
    const page = await openAs(emails.member, `${pages}/members`);
    await page.shows("Your role does not allow you to invite people");
    await page.shows(ownersEmail);
  });
});
