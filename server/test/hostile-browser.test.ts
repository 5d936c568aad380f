// What the page of a hostile open app can do to a person who is signed in to the dashboard of the
// same platform, tried in a real browser. After each attempt the person is signed in still, nothing
// was sent with their session, and nothing was changed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { cookieAttempts } from "./hostile-browser-cookies.ts";
import { signInAttempts } from "./hostile-browser-sign-in.ts";
import {
  hasEmptyFrame,
  html,
  isLoaded,
  openDashboardFrom,
  openFrom,
  pagePath,
  setting,
  startHostileStage,
  tried,
  type Attempt,
} from "./hostile-browser-stage.ts";
import { strangersAttempts } from "./hostile-browser-strangers.ts";
import { drawCases } from "./support/drawn-cases.ts";
import { withoutBrowser } from "./support/page-stage.ts";
import { helloPath } from "./support/proxy-bed.ts";
import { until } from "./support/until.ts";

/** A form that goes where the page wants as soon as it is there. */
function form(action: string, fields: string, enctype = "text/plain"): string {
  return `(() => {
    document.body.innerHTML = ${JSON.stringify(`<form method="post" action="${action}" enctype="${enctype}">${fields}</form>`)};
    document.forms[0].submit();
  })()`;
}

const requests: Record<string, Attempt> = {
  async "an access token, by the session's cookie"(stage) {
    const page = await stage.look();
    const json =
      "{ method: 'POST', credentials: 'include', headers: { 'content-type': 'application/json' }, body: '{}' }";
    const simple = "{ method: 'POST', credentials: 'include', mode: 'no-cors', body: '{}' }";
    const forms =
      "{ method: 'POST', credentials: 'include', body: new URLSearchParams({ grant_type: 'refresh_token' }) }";
    const read = (options: string) =>
      tried(page, `fetch("/v2/auth/token", ${options}).then((answer) => answer.text())`);
    assert.equal(await read(json), "TypeError");
    assert.equal(await read(forms), "TypeError");
    assert.equal(await read(simple), "TypeError");
    assert.equal(
      await tried(page, `fetch("/v2/auth/token", { method: "POST", mode: "same-origin" })`),
      "TypeError",
    );
  },
  async "what the management API and the dashboard answer"(stage) {
    const page = await stage.look();
    for (const path of [
      "/v2/projects",
      "/v2/auth/session",
      "/openapi.json",
      "/dashboard",
      "/dashboard/favicon.svg",
    ]) {
      assert.equal(
        await tried(
          page,
          `fetch("${path}", { credentials: "include" }).then((answer) => answer.text())`,
        ),
        "TypeError",
      );
      const opaque = `fetch("${path}", { credentials: "include", mode: "no-cors" }).then((answer) => answer.text())`;
      assert.match(String(await tried(page, opaque)), /^(?:TypeError)?$/, path);
    }
  },
  async "scripts of the dashboard, loaded into the app's page"(stage) {
    const page = await stage.look();
    const load = (kind: string) => `new Promise((resolve) => {
      const script = Object.assign(document.createElement("script"), { src: "/dashboard/favicon.svg", type: "${kind}" });
      script.onload = () => resolve("loaded");
      script.onerror = () => resolve("refused");
      document.head.append(script);
    })`;
    assert.equal(await tried(page, load("module")), "refused");
    assert.equal(await tried(page, load("text/javascript")), "refused");
    assert.equal(
      await tried(page, `import("/dashboard/favicon.svg").then(() => "loaded")`),
      "TypeError",
    );
  },
  async "requests with the token of an inference, from a page of elsewhere"(stage) {
    const page = await stage.look();
    const options =
      "{ method: 'DELETE', headers: { authorization: 'Bearer x' }, credentials: 'include' }";
    assert.equal(
      await tried(page, `fetch("/v2/projects/${stage.api.projectId}", ${options})`),
      "TypeError",
    );
    assert.equal(
      stage.asked.filter(({ method }) => method === "DELETE").length,
      0,
      "it is not even sent",
    );
  },
  async "a sign-in as the attacker, by forms"(stage) {
    const body = JSON.stringify({
      email: "ada@example.test",
      password: "a password for tests",
      x: "",
    });
    const [before = "", after = ""] = body.split('""');
    const field = `<input name='${before}"' value='"${after}'>`;
    for (const enctype of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data",
    ]) {
      const page = await stage.look();
      await page.evaluate(form("/v2/auth/sign-in", field, enctype));
      await isLoaded(page, `${stage.baseUrl}/v2/auth/sign-in`);
      assert.match(await page.text(), /message/, "it is refused");
    }
  },
  async "forms that change something"(stage) {
    const project = `/v2/projects/${stage.api.projectId}`;
    for (const path of [
      "/v2/projects",
      "/v2/auth/sign-out",
      "/v2/auth/token",
      `${project}/webhook-secrets`,
      `${project}/api-keys`,
    ]) {
      const page = await stage.look();
      await page.evaluate(form(path, `<input name='{"name":"' value='"}'>`));
      await isLoaded(page, stage.baseUrl + path);
      assert.match(await page.text(), /message/, path);
    }
  },
  async "requests that outlive the page: beacons and keepalive"(stage) {
    const page = await stage.look();
    await page.evaluate(`(() => {
      navigator.sendBeacon("/v2/auth/sign-out", "{}");
      void fetch("/v2/auth/sign-out", { method: "POST", mode: "no-cors", credentials: "include", keepalive: true, body: "{}" });
      void fetch("/v2/auth/sessions", { method: "DELETE", credentials: "include", keepalive: true }).catch(() => undefined);
    })()`);
    await page.send("Page.close");
    await until(
      "they have come",
      () => stage.asked.filter(({ url }) => url === "/v2/auth/sign-out").length >= 2,
    );
  },
  async "redirects of the app: Location that keeps the method, Refresh, meta"(stage) {
    const page = await stage.look();
    // A path from the root would be put below the app's own.
    stage.serve({ status: 307, headers: ["Location", "../../../../../v2/auth/sign-out"] });
    await page.evaluate(form(`${pagePath}/x`, "<input name='{}' value=''>"));
    await isLoaded(page, `${stage.baseUrl}/v2/auth/sign-out`);
    for (const served of [
      { headers: [...html, "Refresh", "0;url=/v2/auth/sign-out"], body: "<p>hello" },
      { headers: html, body: '<meta http-equiv="refresh" content="0;url=/v2/auth/sign-out">' },
    ]) {
      const before = stage.asked.length;
      const one = await stage.look({}, stage.baseUrl + helloPath);
      stage.serve(served);
      await one.goTo(stage.baseUrl + pagePath);
      await until("it has gone there", () => stage.asked.length > before);
    }
  },
  async "hints to load ahead: Link with preload, prefetch and speculation rules"(stage) {
    const links = [
      "</v2/auth/session>; rel=preload; as=fetch; crossorigin=use-credentials",
      "</dashboard>; rel=prefetch",
    ];
    const rules = {
      prefetch: [{ urls: ["/v2/auth/session"] }],
      prerender: [{ urls: ["/dashboard"] }],
    };
    const page = await stage.look({
      headers: [...html, "Link", links.join(", ")],
      body: `<script type="speculationrules">${JSON.stringify(rules)}</script><p>hello`,
    });
    await page.shows("hello");
  },
  async "a WebSocket to the platform, and one to the app that brings the person's cookies"(stage) {
    const page = await stage.look();
    const open = (path: string) => `new Promise((resolve) => {
      const socket = new WebSocket("${stage.baseUrl.replace("http", "ws")}${path}");
      socket.onopen = () => resolve("open");
      socket.onerror = () => resolve("refused");
    })`;
    for (const path of ["/v2/auth/token", "/dashboard", pagePath])
      assert.equal(await tried(page, open(path)), "refused");
    const upgrade = stage.called.find(({ headers }) => headers.upgrade === "websocket");
    assert.equal(upgrade?.headers.origin, "null", "it comes from nobody");
    assert.equal(upgrade?.headers.cookie, undefined);
  },
};

const windows: Record<string, Attempt> = {
  async "the dashboard in a frame, to have it clicked"(stage) {
    const page = await stage.look();
    await page.evaluate(`new Promise((resolve) => {
      const frame = Object.assign(document.createElement("iframe"), { src: "/dashboard", onload: resolve });
      document.body.append(frame);
    })`);
    await hasEmptyFrame(page);
    assert.equal(await tried(page, "frames[0].document.body.innerText"), "SecurityError");
  },
  async "the dashboard in a window of the page's"(stage) {
    const page = await stage.look();
    await openFrom(page, "/dashboard");
    assert.match(String(await tried(page, "window.opened.document.body.innerText")), /Error$/);
  },
  async "the origin of the platform: document.domain, frames without a sandbox, windows, javascript: and blob:"(
    stage,
  ) {
    const page = await stage.look();
    assert.equal(await page.evaluate("self.origin"), "null");
    assert.equal(
      await tried(page, "{ document.domain = '127.0.0.1'; return self.origin; }"),
      "SecurityError",
    );
    const origins = await page.evaluate(`new Promise((resolve) => {
      const seen = [];
      addEventListener("message", ({ data }) => seen.push(data) === 4 && resolve(seen));
      const tell = "(opener ?? parent).postMessage(self.origin, '*')";
      const markup = "<script>" + tell + "</scr" + "ipt>";
      const frame = (fields) => document.body.append(Object.assign(document.createElement("iframe"), fields));
      frame({ srcdoc: markup });
      frame({ srcdoc: markup, sandbox: "allow-scripts allow-same-origin" });
      frame({ src: "javascript:" + JSON.stringify(markup) });
      frame({ src: URL.createObjectURL(new Blob([markup], { type: "text/html" })) });
    })`);
    assert.deepEqual(origins, ["null", "null", "null", "null"]);
    stage.serve({ headers: html, body: "<script>opener?.postMessage(self.origin, '*')</script>" });
    const told = await page.evaluate(`new Promise((resolve) => {
      addEventListener("message", ({ data }) => resolve(data));
      window.open("${pagePath}/opened");
    })`);
    assert.equal(told, "null", "a window of the page's is in the sandbox, too");
  },
  async "a policy of the app's own that takes the sandbox away"(stage) {
    const tricks: readonly (readonly string[])[] = [
      ["Content-Security-Policy", "sandbox allow-same-origin allow-scripts"],
      ["Content-Security-Policy-Report-Only", "sandbox"],
      ["Connection", "Content-Security-Policy"],
      ["Content-Security-Policy", "default-src *, sandbox allow-same-origin allow-scripts"],
    ];
    for (const trick of tricks) {
      const page = await stage.look({ headers: [...html, ...trick], body: "<p>hello" });
      assert.equal(await page.evaluate("self.origin"), "null", trick.join(": "));
      await page.send("Page.close");
    }
  },
  async "answers that the browser takes for a page though they do not say so"(stage) {
    const body =
      "<!doctype html><html xmlns='http://www.w3.org/1999/xhtml'><body><p>hello</p></body></html>";
    const types = [
      "",
      "text/html;charset=utf-7",
      "application/xhtml+xml",
      "image/svg+xml",
      "text/xml",
      "*/*",
      "x",
    ];
    for (const type of types) {
      for (const status of [200, 404, 500]) {
        const page = await stage.look({
          status,
          headers: type === "" ? [] : ["Content-Type", type],
          body,
        });
        assert.equal(await page.evaluate("self.origin"), "null", `${type} ${status}`);
        await page.send("Page.close");
      }
    }
  },
};

const wholeSite: Record<string, Attempt> = {
  async "a service worker for everything"(stage) {
    const script = {
      headers: ["Content-Type", "text/javascript", "Service-Worker-Allowed", "/"],
      body: "onfetch = () => {}",
    };
    const page = await stage.look();
    stage.serve(script);
    const register = (scope: string) =>
      `navigator.serviceWorker.register("${pagePath}/worker.js", { scope: "${scope}" }).then(() => "made")`;
    for (const scope of ["/", "/v4/", "/dashboard", `${pagePath}/`]) {
      assert.match(String(await tried(page, register(scope))), /Error$/, scope);
    }
    // Where pages are not sandboxed a worker is the app's own, and for the app's own paths.
    const free = await stage.look({}, `${stage.pagesUrl}${pagePath}`);
    stage.serve(script);
    assert.equal(await tried(free, register(`${pagePath}/`)), "made");
    assert.equal(await tried(free, register("/")), "SecurityError");
    // A worker of the app's own root has all of the app's host, and nothing of the platform's.
    const rooted = `navigator.serviceWorker.register("/worker.js", { scope: "/" }).then(() => "made")`;
    assert.equal(await tried(free, rooted), "made");
    const over = `navigator.serviceWorker.register("${stage.baseUrl}/v4/worker.js", { scope: "${stage.baseUrl}/" })`;
    assert.equal(await tried(free, over), "SecurityError");
  },
  async "Clear-Site-Data for all of the platform"(stage) {
    await stage.victim.evaluate("localStorage.setItem('mine', 'kept')");
    await stage.look({
      headers: [...html, "Clear-Site-Data", '"*", "cookies", "storage", "executionContexts"'],
      body: "<p>hello",
    });
    assert.equal(await stage.victim.evaluate("localStorage.getItem('mine')"), "kept");
    await stage.victim.evaluate("localStorage.clear()");
  },
  async "what browsers remember of a whole site: client hints, dictionaries, reports, other addresses"(
    stage,
  ) {
    const remembered = [
      "Accept-CH",
      "Sec-CH-UA-Arch, Sec-CH-UA-Model, Device-Memory",
      "Critical-CH",
      "Sec-CH-UA-Arch",
      "Use-As-Dictionary",
      'match="/*"',
      "Cache-Control",
      "max-age=3600",
      "Alt-Svc",
      'h2="127.0.0.1:1"; ma=3600',
      "Strict-Transport-Security",
      "max-age=3600",
      "Set-Login",
      "logged-in",
      "Origin-Agent-Cluster",
      "?1",
      "NEL",
      '{"report_to":"x","max_age":3600}',
      "Report-To",
      '{"group":"x","max_age":3600,"endpoints":[{"url":"/v4"}]}',
    ];
    await stage.look({ headers: [...html, ...remembered], body: "<p>hello" });
    await stage.victim.goTo(`${stage.baseUrl}/dashboard/account`);
    await isLoaded(stage.victim, `${stage.baseUrl}/dashboard/account`);
    const sent = stage.asked.find(({ url }) => url === "/dashboard/account")?.headers ?? {};
    for (const name of [
      "sec-ch-ua-arch",
      "sec-ch-ua-model",
      "device-memory",
      "available-dictionary",
    ]) {
      assert.equal(sent[name], undefined, name);
    }
    assert.equal(sent.host, new URL(stage.baseUrl).host);
    stage.asked.length = 0;
  },
  async "storage of the platform's origin"(stage) {
    const page = await stage.look();
    for (const access of [
      "localStorage.length",
      "sessionStorage.length",
      "caches.keys()",
      "indexedDB.databases()",
      "navigator.locks.query()",
    ]) {
      assert.match(
        String(await tried(page, access)),
        /^(?:SecurityError|UnknownError|InvalidStateError)$/,
        access,
      );
    }
    assert.equal(
      await tried(page, "{ new BroadcastChannel('slipway').postMessage(1); return self.origin; }"),
      "null",
    );
  },
  async "another text under an address of the platform, out of the browser's cache"(stage) {
    const kept = [
      "Cache-Control",
      "public, max-age=3600, immutable",
      "Content-Location",
      "/dashboard",
      "No-Vary-Search",
      "params",
    ];
    const page = await stage.look({ headers: [...html, ...kept], body: "<p>poisoned" });
    for (const cache of ["reload", "force-cache"]) {
      await tried(
        page,
        `fetch("/dashboard/favicon.svg", { mode: "no-cors", cache: "${cache}", headers: { range: "bytes=0-1" } })`,
      );
      await tried(page, `fetch("/dashboard", { mode: "no-cors", cache: "${cache}" })`);
    }
    await stage.victim.goTo(`${stage.baseUrl}/dashboard`);
    await stage.victim.shows("No apps yet.");
    stage.asked.length = 0;
  },
  async "from its own host name, where pages run as they are: the platform and its cookies"(stage) {
    const served = setting(
      "a=1; Path=/",
      "b=1; Domain=localhost; Path=/",
      "slipway_session=mine; Path=/v2/auth",
    );
    const page = await stage.look(served, `${stage.pagesUrl}/page`);
    assert.equal(await page.evaluate("self.origin"), stage.pagesUrl);
    for (const script of [
      "c=1; Domain=localhost; Path=/",
      "d=1; Domain=127.0.0.1; Path=/",
      "e=1; Path=/",
    ])
      await page.evaluate(`void (document.cookie = ${JSON.stringify(script)})`);
    const options = `{ method: "POST", credentials: "include", body: "{}" }`;
    const read = `fetch("${stage.baseUrl}/v2/auth/token", ${options}).then((answer) => answer.text())`;
    assert.equal(await tried(page, read), "TypeError");
    const own = await stage.cookiesFor(`${stage.pagesUrl}/x`);
    assert.deepEqual(own, ["a=1", "b=1", "e=1"], "its own are its own");
    const port = new URL(stage.baseUrl).port;
    for (const other of [
      `http://localhost:${port}/`,
      `http://other-p-00000001.localhost:${port}/`,
    ]) {
      assert.deepEqual(await stage.cookiesFor(other), [], other);
    }
  },
  async "from its own host name: the dashboard's address under that name, framed, and in a window"(
    stage,
  ) {
    const page = await stage.look({}, `${stage.pagesUrl}/page`);
    stage.serve({ headers: html, body: "<p>of the app" });
    for (const path of ["/dashboard", "/v2/auth/token", "/v2/projects", "/healthz"]) {
      assert.equal(
        await tried(page, `fetch("${path}").then((answer) => answer.text())`),
        "<p>of the app",
        path,
      );
    }
    await page.evaluate(`new Promise((resolve) => {
      const frame = Object.assign(document.createElement("iframe"), { src: "${stage.baseUrl}/dashboard", onload: resolve });
      document.body.append(frame);
    })`);
    await hasEmptyFrame(page);
    await openDashboardFrom(stage, page);
  },
};

test(
  "a hostile app's page in the browser of a person who is signed in cannot …",
  { skip: withoutBrowser },
  async (t) => {
    const stage = await startHostileStage(t);
    const attempts = {
      ...cookieAttempts,
      ...signInAttempts,
      ...requests,
      ...windows,
      ...wholeSite,
      ...strangersAttempts,
    };
    assert.ok(Object.keys(attempts).length >= 20);
    const groups = [
      cookieAttempts,
      signInAttempts,
      requests,
      windows,
      wholeSite,
      strangersAttempts,
    ];
    const kindOf = ([name]: [string, unknown]): string =>
      String(groups.findIndex((group) => Object.hasOwn(group, name)));
    for (const [name, attempt] of drawCases(Object.entries(attempts), {
      what: "attempts",
      max: 9,
      kindOf,
    })) {
      await t.test(name, async (part) => {
        await stage.begin();
        await attempt(stage, part);
        await stage.isUnharmed();
      });
    }
  },
);
