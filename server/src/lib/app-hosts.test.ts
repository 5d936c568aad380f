// Which host names are those of apps, and where an app has one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { AppHosts } from "./app-hosts.ts";

const app = { projectId: "p-0123abcd", appName: "my-app" };

test("a host name is an app's or the platform's, and nothing in between", () => {
  const hosts = new AppHosts("localhost");
  for (const host of [
    "my-app-p-0123abcd.localhost",
    "MY-app-p-0123ABCD.LocalHost:7070",
    "my-app-p-0123abcd.localhost:",
  ]) {
    assert.deepEqual(hosts.appOf(host), app, host);
  }
  const others = [
    "",
    "localhost",
    "localhost:7070",
    "127.0.0.1",
    "my-app-p-0123abcd",
    "my-app-p-0123abcd.example",
    "my-app-p-0123abcd.localhost.",
    "x.my-app-p-0123abcd.localhost",
    "my-app-p-0123abc.localhost",
    "my-app-p-0123abcd.localhost.evil",
    "my_app-p-0123abcd.localhost",
    "ab-p-0123abcd.localhost",
    "my-app-p-0123abcd.localhost:7070:1",
    "my-app-p-0123abcd.xlocalhost",
    "-p-0123abcd.localhost",
  ];
  for (const host of [undefined, ...others]) assert.equal(hosts.appOf(host), null, host);
  assert.deepEqual(hosts.appOf("foo-dev-p-0123abcd.localhost"), {
    projectId: "p-0123abcd",
    appName: "foo-dev",
  });
  assert.deepEqual(
    new AppHosts("apps.example.org").appOf("my-app-p-0123abcd.apps.example.org"),
    app,
  );
  assert.equal(new AppHosts("apps.example.org").appOf("my-app-p-0123abcd.localhost"), null);
});

test("an app has an address of its own where its name leads to the platform", () => {
  const hosts = new AppHosts("localhost");
  const own = "http://my-app-p-0123abcd.localhost:7070/";
  assert.equal(hosts.urlOf("http://127.0.0.1:7070", app), own);
  assert.equal(hosts.urlOf("http://localhost:7070", app), own);
  assert.equal(hosts.urlOf("http://[::1]", app), "http://my-app-p-0123abcd.localhost/");
  assert.equal(
    hosts.urlOf("http://192.0.2.7:7070", app),
    null,
    "there it would lead to the reader's own machine",
  );
  assert.equal(hosts.urlOf("https://slipway.example.org", app), null);
  const apps = new AppHosts("apps.example.org");
  assert.equal(
    apps.urlOf("https://slipway.example.org", app),
    "https://my-app-p-0123abcd.apps.example.org/",
  );
  assert.equal(apps.urlOf("http://127.0.0.1:7070", { ...app, projectId: "dev-p-0123abcd" }), null);
});
