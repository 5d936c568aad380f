// Samples by app: which labels they have, and that their number has a bound.
import assert from "node:assert/strict";
import { test } from "node:test";
import { appIdOf, type ProjectId } from "#lib/ids.ts";
import { ListedApps } from "./listed-apps.ts";

const app = (project: string, name: string) => appIdOf(project as ProjectId, name);
const first = { appId: app("p-00000001", "my-app"), count: 1 };
const second = { appId: app("dev-p-00000002", "b-1"), count: 2 };
const third = { appId: app("p-00000003", "third"), count: 4 };
const fourth = { appId: app("p-00000003", "fourth"), count: 8 };

test("each app has its project and itself as labels", () => {
  const apps = new ListedApps(() => [first, second]);
  assert.deepEqual(
    apps.samples(({ count }) => [
      [{ status: "2xx" }, count],
      [{ status: "5xx" }, 0],
    ]),
    [
      { labels: { project: "p-00000001", app: "p-00000001-my-app", status: "2xx" }, value: 1 },
      { labels: { project: "dev-p-00000002", app: "dev-p-00000002-b-1", status: "2xx" }, value: 2 },
    ],
  );
});

test("apps beyond the bound share a line, and none takes the line of one that is gone", () => {
  let there = [first, second, third, fourth];
  const apps = new ListedApps(() => there, 2);
  const read = (): unknown[] =>
    apps.each(({ count }) => count).map(({ labels, value }) => [labels["app"], value]);
  assert.deepEqual(read(), [
    [first.appId, 1],
    [second.appId, 2],
    ["", 12],
  ]);
  there = [second, third, fourth];
  assert.deepEqual(read(), [
    [second.appId, 2],
    ["", 12],
  ]);
});
