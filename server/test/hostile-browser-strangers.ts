// What a browser must not show to whoever has no right to it: answers that it has kept for another
// caller, and the platform under a stranger's name.
import assert from "node:assert/strict";
import type { HostileStage, Attempt } from "./hostile-browser-stage.ts";
import { strangeName, type Page } from "./support/browser.ts";
import { bedTokens, helloPath } from "./support/proxy-bed.ts";

type Got = { readonly status: number; readonly text: string };

async function fetchIn(page: Page, path: string, options: RequestInit = {}): Promise<Got> {
  const made = `fetch("${path}", ${JSON.stringify(options)})`;
  return (await page.evaluate(
    `${made}.then(async (answer) => ({ status: answer.status, text: await answer.text() }))`,
  )) as Got;
}

/** Calls with a token, then as others would, from a page of the same origin. */
async function askForKept({ called }: HostileStage, page: Page, path: string): Promise<void> {
  const before = called.length;
  const mine = { headers: { authorization: `Bearer ${bedTokens.project}` } };
  const kept = { status: 200, text: "for one token" };
  assert.deepEqual(await fetchIn(page, path, mine), kept);
  assert.deepEqual(await fetchIn(page, path, mine), kept);
  assert.equal(called.length - before, 1, "the browser does keep it");
  for (const cache of ["default", "force-cache"] as const) {
    const none = await fetchIn(page, path, { cache });
    assert.deepEqual([none.status, none.text.includes(kept.text)], [401, false], cache);
    const headers = { authorization: `Bearer ${bedTokens.foreign}` };
    const other = await fetchIn(page, path, { cache, headers });
    assert.deepEqual([other.status, other.text.includes(kept.text)], [404, false], cache);
    assert.deepEqual(await fetchIn(page, path, mine), kept);
  }
}

/** Tried like the others, see hostile-browser.test.ts. */
export const strangersAttempts: Record<string, Attempt> = {
  async "an answer that the browser has kept for a token, without the token"(stage, t) {
    stage.setRoute({ disableAuth: false });
    t.after(() => stage.setRoute({ disableAuth: true }));
    const headers = ["Content-Type", "text/plain", "Cache-Control", "public, max-age=3600"];
    stage.serve({ headers, body: "for one token" });
    await askForKept(stage, stage.victim, `${helloPath}/kept`);
    const { victim, baseUrl, pagesUrl } = stage;
    await victim.goTo(`${baseUrl}${helloPath}/kept`);
    await victim.shows("No Authorization token found");
    await victim.goTo(`${pagesUrl}/kept`);
    await victim.shows("No Authorization token found");
    await askForKept(stage, victim, "/kept");
    await victim.goTo(`${pagesUrl}/kept`);
    await victim.shows("No Authorization token found");
  },
  async "the platform under a name of the attacker's that leads to it"(stage) {
    const strange = stage.baseUrl.replace("127.0.0.1", strangeName);
    const page = await stage.look({}, `${strange}/dashboard`);
    assert.equal(await page.evaluate("self.origin"), strange, "what it reads is its own");
    assert.deepEqual(await stage.cookiesFor(`${strange}/v2/auth/token`), []);
    const json = { "content-type": "application/json" };
    const asked: readonly (readonly [string, number, RequestInit?])[] = [
      ["/v2/auth/token", 401, { method: "POST", headers: json, body: "{}" }],
      ["/v2/auth/session", 401],
      ["/v2/projects", 401],
      [`/v2/projects/${stage.api.projectId}`, 401],
      ["/metrics", 404],
      ["/bootstrap.json", 404],
      ["/secret.key", 404],
    ];
    for (const [path, status, options] of asked) {
      const got = await fetchIn(page, path, { credentials: "include", ...options });
      assert.equal(got.status, status, `${path}: ${got.text}`);
      assert.deepEqual(Object.keys(JSON.parse(got.text) as object), ["message"], path);
    }
    assert.deepEqual(JSON.parse((await fetchIn(page, "/healthz")).text), { status: "ok" });
    assert.doesNotMatch(await page.text(), /ada@example\.test|Ada's/);
  },
};
