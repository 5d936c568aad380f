// The pages of a project in a real browser: who is in it, its files, its secrets and its tokens.
// Each change is made on the page and checked with the API. Without a Chromium on the machine these
// tests are skipped, and say so.
import "./support/leftovers.ts";
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { partBytes } from "@slipway/contract/volume-routes.ts";
import {
  choose,
  chosenFiles,
  clickNamed,
  hostileName,
  pick,
  startProjectStage,
} from "./dashboard-project-stage.ts";
import type { Json } from "./support/management-api.ts";
import { volumesOf } from "./support/management-platform.ts";
import { withoutBrowser } from "./support/page-stage.ts";
import { until } from "./support/until.ts";

describe("the pages of a project", { skip: withoutBrowser }, () => {
  test("invite somebody with a link that is shown once, change a role, remove a member, and leave", async (t) => {
    const { api, call, pages, addMember, open, openAs } = await startProjectStage(t);
    await addMember({ email: "eve@example.test", name: hostileName, role: "member" });
    const page = await open(`${pages}/members`);
    await page.shows(hostileName);
    await page.type("Email", "bob@example.test");
    await choose(page, "Role", "billing");
    await page.click("Invite");
    await page.shows("Pass this link on to bob@example.test.");
    const link: string = await page.evaluate("document.querySelector('.once pre').textContent");
    const found = await api.call("GET", `/v2/auth/invitations/${link.split("/").at(-1)}`, {
      token: null,
    });
    assert.deepEqual(
      [found.body.email, found.body.role, found.body.invitedBy],
      ["bob@example.test", "billing", "Olga Owner"],
    );
    await page.reload();
    await page.shows("bob@example.test");
    assert.equal((await page.text()).includes(link), false);
    await page.click("Withdraw");
    await page.click("Withdraw now");
    await page.shows("No invitation is open.");
    assert.deepEqual(await call("GET", "/invitations"), []);

    const eve = async (): Promise<Json> =>
      ((await call("GET", "/members")) as Json[]).find(({ email }) => email === "eve@example.test");
    await choose(page, `Role of ${hostileName}`, "admin");
    await page.click("Change role");
    await until("Eve is an admin", async () => (await eve()).role === "admin");

    // An admin is offered no role that may do more, and not the owner.
    const other = await openAs("eve@example.test", `${pages}/members`);
    await other.shows("Olga Owner");
    const offered =
      "[...document.querySelectorAll('form select option')].map(({ value }) => value).join()";
    await until(
      "what they may give is offered",
      async () => (await other.evaluate(offered)) === "admin,member",
    );
    assert.equal(
      await other.evaluate(`document.querySelector('[aria-label="Remove Olga Owner"]')`),
      null,
    );
    await other.click("Leave");
    await other.click("Keep");
    assert.notEqual(await eve(), undefined);
    await other.click("Leave");
    await other.click("Leave now");
    await other.shows("You are in no project.");
    assert.equal(await eve(), undefined);

    await clickNamed(page, "Remove Owner");
    await page.click("Remove now");
    await until(
      "the other owner is removed",
      async () => (await call("GET", "/members")).length === 1,
    );
    const removal = `document.querySelector('[aria-label="Remove Owner"]')`;
    await until(
      "the list has moved up",
      async () => (await page.evaluate(`${removal} === null`)) === true,
    );
    await page.click("Leave");
    await page.click("Leave now");
    await page.shows("the project's last owner");
    assert.equal((await call("GET", "/members")).length, 1);
  });

  test("upload several files in parts, ask before they replace one, and download and remove what is there", async (t) => {
    const { folder, call, pages, open } = await startProjectStage(t, {
      settings: volumesOf(50_000_000_000),
    });
    const name = "a&b #1 %2e <b>.txt";
    mkdirSync(join(folder, "data", "line\nbreak\u202e"), { recursive: true });
    writeFileSync(join(folder, "data", name), "before");
    const large = randomBytes(2 * partBytes + 3);
    const page = await open(`${pages}/volumes`);
    await page.shows("of 50 GB");
    await page.click("data/");
    await page.shows(name);
    await page.shows("line\ufffdbreak\ufffd/");
    await pick(page, chosenFiles(t, { "large.bin": large, "empty.txt": "", [name]: "after" }));
    await page.shows("Replace what is there?");
    await page.click("Upload only the others");
    await page.shows("2 of 2 files uploaded");
    assert.ok(readFileSync(join(folder, "data", "large.bin")).equals(large));
    assert.equal(readFileSync(join(folder, "data", "empty.txt"), "utf8"), "");
    assert.equal(readFileSync(join(folder, "data", name), "utf8"), "before");
    await page.shows("10.5 MB");
    await pick(page, chosenFiles(t, { [name]: "after" }));
    await page.click("Upload and replace");
    await page.shows("1 of 1 file uploaded");
    assert.equal(readFileSync(join(folder, "data", name), "utf8"), "after");

    const saved = await page.download(() => clickNamed(page, "Download data/large.bin"));
    assert.equal(saved.name, "large.bin");
    assert.ok(saved.bytes.equals(large));

    await clickNamed(page, `Remove data/${name}`);
    await page.click("Remove now");
    await until("the file is removed", () => !existsSync(join(folder, "data", name)));
    await page.click("persistent-storage");
    await clickNamed(page, "Remove data");
    await page.shows("With all that is in it.");
    await page.click("Remove now");
    await page.shows("Nothing is here.");
    assert.equal(existsSync(join(folder, "data")), false);

    await page.click("Change the size");
    await page.type("Size in GB", "60");
    await page.click("Change size");
    await page.shows("newSizeGb is 60");
    await page.type("Size in GB", "20");
    await page.click("Change size");
    await page.shows("of 20 GB");
    assert.equal((await call("GET", "/volumes"))[0].sizeGb, 20);
  });

  test("cancel an upload that is under way, and ask before the page is left with it", async (t) => {
    const { folder, pages, open } = await startProjectStage(t);
    const page = await open(`${pages}/volumes`);
    await page.shows("Nothing is here.");
    // So slow that it does not end by itself.
    const slow = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 50_000 };
    await page.send("Network.emulateNetworkConditions", slow);
    await pick(page, chosenFiles(t, { "slow.bin": randomBytes(partBytes) }));
    await page.shows("sending");
    await page.click("Members");
    await page.shows("They are cancelled when you leave this page.");
    await page.click("Stay");
    await page.shows("sending");
    await clickNamed(page, "Cancel slow.bin");
    await page.shows("cancelled");
    assert.equal(existsSync(join(folder, "slow.bin")), false);
    await page.click("Members");
    await page.shows("What each role may do");
  });

  test("set and remove secrets of all apps, without touching those that were set meanwhile", async (t) => {
    const { call, pages, open } = await startProjectStage(t);
    await call("PATCH", "/secrets", { FIRST: hostileName });
    const page = await open(`${pages}/secrets`);
    await page.shows("FIRST");
    assert.equal((await page.text()).includes(hostileName), false);
    await page.click("Show");
    await page.shows(hostileName);
    await call("PATCH", "/secrets", { FIRST: hostileName, MEANWHILE: "by somebody else" });
    await page.type("Name", "__proto__");
    await page.type("Value", "no object");
    await page.click("Set");
    await page.shows("__proto__");
    const own = JSON.parse('{"__proto__": "no object"}') as Json;
    assert.deepEqual(await call("GET", "/secrets"), {
      FIRST: hostileName,
      MEANWHILE: "by somebody else",
      ...own,
    });
    await clickNamed(page, "Remove FIRST");
    await page.click("Remove now");
    await until(
      "the secret is removed",
      async () => !Object.hasOwn(await call("GET", "/secrets"), "FIRST"),
    );
    const key = "-----BEGIN KEY-----\n  a\tb\n-----END KEY-----\n";
    await page.evaluate("[...document.querySelectorAll('input[type=checkbox]')].at(0).click()");
    await page.type("Name", "KEY");
    await page.type("Value", key);
    await page.click("Set");
    await until(
      "the key is set, line by line",
      async () => (await call("GET", "/secrets"))["KEY"] === key,
    );
    await page.type("Name", "no name");
    await page.type("Value", "x");
    await page.click("Set");
    await page.shows("no name");
  });

  test("rename the project, make another one, and delete it after its name is typed", async (t) => {
    const { api, call, pages, open, addMember, openAs } = await startProjectStage(t);
    await addMember({ email: "mia@example.test", name: "Mia", role: "member" });
    const page = await open(`${pages}/settings`);
    await page.type("Name", hostileName);
    await page.click("Rename");
    await page.shows(`The project is called ${hostileName} now.`);
    await until("the trail has the new name", async () =>
      (await page.evaluate("document.querySelector('.trail').textContent")).includes(hostileName),
    );
    assert.equal((await call("GET", "")).name, hostileName);
    const other = await openAs("mia@example.test", `${pages}/settings`);
    await other.shows("Your role does not allow you to delete the project.");
    await other.shows("Your role does not allow you to rename the project.");

    await page.click("Make another project");
    await page.type("Name", "second");
    await page.click("Create the project");
    await page.shows("Apps");
    await page.click("Settings");
    await page.shows("Type second to delete it");
    assert.equal(await page.evaluate("document.querySelector('.danger button').disabled"), true);
    await page.type("Type second to delete it", "second");
    await page.click("Delete the project");
    await page.shows(hostileName);
    const token = await api.issue({ kind: "operator" });
    const { body } = await api.call("GET", "/v2/projects", { token });
    assert.deepEqual(
      (body as Json[]).map(({ name }) => name),
      [hostileName],
    );
  });

  test("rotate a token, keep the previous one for the chosen time, and revoke it after a second question", async (t) => {
    const { api, call, pages, open } = await startProjectStage(t);
    const made = await call("POST", "/service-accounts", { name: hostileName, role: "member" });
    await call("POST", "/api-keys", { name: "caller" });
    const page = await open(`${pages}/keys`);
    await page.shows("caller");
    await clickNamed(page, `Rotate ${hostileName}`);
    await choose(page, "The present token stays valid", "3600");
    await page.click("Issue the new token");
    await page.shows("It is shown only now");
    await page.shows("The previous token is valid, too");
    const token: string = await page.evaluate("document.querySelector('.once pre').textContent");
    const statusOf = async (given: string): Promise<number> =>
      (await api.call("GET", "/v2/projects", { token: given })).status;
    assert.deepEqual([await statusOf(token), await statusOf(made.token)], [200, 200]);
    await clickNamed(page, "Rotate caller");
    await page.click("Issue the new token");
    await until("the key has two tokens", async () => {
      const [key] = (await call("GET", "/api-keys")) as Json[];
      return key.tokens.length === 2;
    });
    await clickNamed(page, `Revoke ${hostileName}`);
    await page.click("Revoke now");
    await until("all its tokens are refused", async () => (await statusOf(token)) === 401);
    assert.equal(await statusOf(made.token), 401);
  });
});
