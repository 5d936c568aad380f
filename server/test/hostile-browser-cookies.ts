// What a hostile app tries with cookies; see hostile-browser.test.ts.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { pagePath, setting, tried, type Attempt } from "./hostile-browser-stage.ts";
import { helloPath } from "./support/proxy-bed.ts";

/** As large as a browser takes them. */
const big = "x".repeat(3_800);

/** By name. */
export const cookieAttempts: Record<string, Attempt> = {
  async "ten large cookies for all paths, as they locked browsers out of the dashboard"(stage) {
    const all = Array.from(
      { length: 10 },
      (_, index) => `lock${index}=${big}; Path=/; Max-Age=3600`,
    );
    await stage.look(setting(...all));
    assert.equal((await stage.cookiesFor(stage.baseUrl + pagePath)).length, 10, "the app has them");
  },
  async "cookies for the platform's paths, by every spelling of path and domain"(stage) {
    const long = `/${"x".repeat(1_020)}`;
    await stage.look(
      setting(
        "a1=1; Path=/dashboard",
        "a2=1; path=/v2/auth",
        "a3=1; PATH=/; Path=/v2",
        "a4=1; Domain=127.0.0.1; Path=/",
        `a5=1; Path=${long}`,
        `a6=1${"; x".repeat(20)}; Path=/`,
        "a7=1;Path=/v4",
        "a8=1; Path=/v4/p-00000001",
        "a9=1",
        'a10="1; Path=/"',
        "a11=1;\tPath\t=\t/",
        "__Host-a12=1; Path=/; Secure",
        "__Secure-a13=1; Path=/; Secure",
        "=a14",
      ),
      // Without a path a browser takes the folder of the address, which here is the project's.
      stage.baseUrl + helloPath,
    );
    await stage.look(setting("b1=1", "b2=1; Path="));
    const own = await stage.cookiesFor(`${stage.baseUrl}${helloPath}/x`);
    for (const name of ["a4", "a5", "a6", "a9", "a11", "b1", "b2"])
      assert.ok(own.includes(`${name}=1`), `the app has ${name}`);
    for (const path of [
      "/",
      "/v2",
      "/v4/",
      "/v4/p-00000001/other",
      "/v4/p-00000001/hello2",
      "/v4/p-99999999/hello",
    ]) {
      assert.deepEqual(await stage.cookiesFor(stage.baseUrl + path), [], path);
    }
  },
  async "a session of the attacker's choice, by the platform's own names"(stage) {
    const names = [
      "slipway_session",
      "slipway_device",
      "__Secure-slipway_session",
      "slipway.state",
      "SLIPWAY_SESSION",
    ];
    await stage.look(
      setting(
        ...names.map((name) => `${name}=mine; Path=/v2/auth`),
        "=slipway_session=mine; Path=/v2/auth",
      ),
    );
  },
  async "so many cookies that the browser drops the person's session"(stage) {
    for (let round = 0; round < 5; round++) {
      const all = Array.from(
        { length: 50 },
        (_, index) => `many${round}_${index}=1; Path=/; Priority=High`,
      );
      const page = await stage.look(setting(...all));
      await page.send("Page.close");
    }
  },
  async "document.cookie of the page"(stage) {
    const page = await stage.look();
    assert.equal(
      await tried(page, "{ document.cookie = 'a=1; path=/'; return document.cookie; }"),
      "SecurityError",
    );
    assert.match(
      String(await tried(page, "cookieStore.set({ name: 'a', value: '1', path: '/' })")),
      /Error$/,
    );
  },
  async "cookies of another server under the same name, until the browser sends too many"(
    stage,
    t,
  ) {
    const all = Array.from(
      { length: 10 },
      (_, index) => `other${index}=${big}; Path=/; Max-Age=3600`,
    );
    const other = createServer((_request, response) =>
      response.writeHead(200, { "set-cookie": all }).end("hello"),
    );
    other.listen(0, "127.0.0.1");
    await once(other, "listening");
    t.after(() => {
      other.closeAllConnections();
      other.close();
    });
    const page = await stage.look({}, `http://127.0.0.1:${(other.address() as AddressInfo).port}/`);
    assert.equal((await stage.cookiesFor(`${stage.baseUrl}/dashboard`)).length, 10);
    await page.goTo(`${stage.baseUrl}/dashboard`);
    await page.shows("The browser was told to delete the cookies of this host");
    assert.deepEqual(
      await stage.cookiesFor(`${stage.baseUrl}/dashboard`),
      [],
      "it is not dead for good",
    );
    await page.goTo(`${stage.baseUrl}/dashboard`);
    await page.shows("Sign in");
    await stage.signInAgain();
  },
  async "addresses so long that the platform tells browsers to remove cookies"(stage) {
    const page = await stage.look();
    const long = `${stage.baseUrl}/dashboard?${"x".repeat(40_000)}`;
    await tried(
      page,
      `fetch("${long}", { mode: "no-cors", credentials: "include" }).then(() => "sent")`,
    );
    await page.goTo(long);
    await page.shows("The head of the request is longer");
  },
  async "cookies of the person in what the app itself is sent"(stage) {
    const page = await stage.look();
    await tried(
      page,
      `fetch("${pagePath}", { credentials: "include", mode: "no-cors" }).then(() => "sent")`,
    );
    const seen = stage.called.map(({ headers }) => headers.cookie ?? "").join();
    assert.doesNotMatch(seen, /slipway/);
  },
};
