// A project whose owner looks at its pages in a browser: what tests of these pages have in common.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { Role } from "@slipway/contract/words.ts";
import { insertMember } from "#accounts/project-store.ts";
import type { Page } from "./support/browser.ts";
import { temporaryFolder } from "./support/folder.ts";
import { startManagementApi, type ApiUnderTest, type Json } from "./support/management-api.ts";
import { openPages, signInOn, type OpenPage } from "./support/page-stage.ts";
import { makePerson } from "./support/person.ts";
import { until } from "./support/until.ts";

/** A name that people may have, and that must stay a text. */
export const hostileName = `<img src=x onerror="window.hacked='name'"> & "Ada"`;

const password = "correct horse battery";

export type ProjectStage = {
  readonly api: ApiUnderTest;
  /** Where the project is in the API. */
  readonly path: string;
  /** Where the project is in the dashboard. */
  readonly pages: string;
  /** The folder behind the project's volume. */
  readonly folder: string;
  /** Calls the API about the project as its owner; fails when it is refused. */
  call(method: string, path: string, body?: Json): Promise<Json>;
  addMember(person: {
    readonly email: string;
    readonly name: string;
    readonly role: Role;
  }): Promise<string>;
  /** Opens a page as the member with this address; by default as an owner. */
  openAs(email: string, path: string): Promise<Page>;
  /** Opens pages as the owner. */
  readonly open: OpenPage;
};

/** The owner who looks. */
export const ownersEmail = "owner@example.test";

/** Starts it; everything is closed after the test. */
export async function startProjectStage(
  t: TestContext,
  options: Parameters<typeof startManagementApi>[1] = {},
): Promise<ProjectStage> {
  const api = await startManagementApi(t, options);
  const path = `/v2/projects/${api.projectId}`;
  const folder = join(api.storageDir, api.projectId);
  mkdirSync(folder, { recursive: true });
  const addMember: ProjectStage["addMember"] = async ({ email, name, role }) => {
    const id = await makePerson(api.db, { email, name, password });
    await insertMember(api.db, { project_id: api.projectId, person_id: id, role });
    return id;
  };
  await addMember({ email: ownersEmail, name: "Olga Owner", role: "owner" });
  const openAny = await openPages(t, api.baseUrl);
  const openAs = async (
    email: string,
    where: string,
    look?: Parameters<OpenPage>[1],
  ): Promise<Page> => {
    const page = await openAny(where, look);
    await signInOn(page, { email, password });
    return page;
  };
  return {
    api,
    path,
    pages: `/dashboard/projects/${api.projectId}`,
    folder,
    addMember,
    openAs,
    async call(method, below, body) {
      const answer = await api.call(method, path + below, body === undefined ? {} : { body });
      assert.ok(
        answer.status < 300,
        `${method} ${below}: ${answer.status} ${JSON.stringify(answer.body)}`,
      );
      return answer.body;
    },
    open: (where, look) => openAs(ownersEmail, where, look),
  };
}

/** Chooses in the list of choices with this label, or this name for readers of the screen. */
export async function choose(page: Page, label: string, value: string): Promise<void> {
  const find = `[...document.querySelectorAll("select")].find((one) =>
    [one.ariaLabel, ...[...one.labels].map(({ textContent }) => textContent.trim())].includes(${JSON.stringify(label)}))`;
  await until(`there is a choice "${label}"`, () => page.evaluate(`${find} !== undefined`));
  await page.evaluate(`(() => {
    const select = ${find};
    select.value = ${JSON.stringify(value)};
    select.dispatchEvent(new Event("change", { bubbles: true }));
  })()`);
}

/** Clicks the button with this name for readers of the screen, as soon as it is there. */
export async function clickNamed(page: Page, name: string): Promise<void> {
  const button = `document.querySelector(${JSON.stringify(`[aria-label=${JSON.stringify(name)}]`)})`;
  await until(`there is a button "${name}"`, () => page.evaluate(`${button} !== null`));
  await page.evaluate(`${button}.click()`);
}

/** Chooses files to upload, as if somebody had picked them. */
export async function pick(page: Page, files: readonly string[]): Promise<void> {
  const expression = "document.querySelector('input[type=file]')";
  await until("files can be chosen", () => page.evaluate(`${expression} !== null`));
  const { result } = await page.send("Runtime.evaluate", { expression });
  await page.send("DOM.setFileInputFiles", { files, objectId: result.objectId });
}

/** Files of this machine with these contents. */
export function chosenFiles(
  t: TestContext,
  contents: Readonly<Record<string, Buffer | string>>,
): string[] {
  const folder = temporaryFolder(t, "chosen");
  return Object.entries(contents).map(([name, content]) => {
    writeFileSync(join(folder, name), content);
    return join(folder, name);
  });
}
