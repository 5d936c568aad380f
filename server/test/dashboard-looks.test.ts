// Every page of a filled dashboard once, in light, dark and on a phone, without errors and without
// what keeps people out. Without a Chromium on the machine this is skipped, and says so.
import { describe, test } from "node:test";
import "./support/leftovers.ts";
import { fillPlatform, startDashboard } from "./support/dashboard-stage.ts";
import { lookAtAll } from "./support/every-look.ts";
import { withoutBrowser } from "./support/page-stage.ts";
import { until } from "./support/until.ts";

describe("the dashboard", { skip: withoutBrowser }, () => {
  test("shows every page in light, dark and on a phone, without errors, and axe finds nothing", async (t) => {
    const { platform, open, openSignedIn } = await startDashboard(t);
    const { appId, buildId } = await fillPlatform(platform);
    const project = `/dashboard/projects/${platform.bootstrap.projectId}`;
    const app = `${project}/apps/${appId}`;
    const texts: Record<string, readonly [string, string]> = {
      apps: [project, "broken"],
      overview: [app, "Latency, with"],
      builds: [`${app}/builds`, "#1"],
      build: [`${app}/builds/${buildId}`, "App started successfully!"],
      logs: [`${app}/logs`, "a warning"],
      runs: [`${app}/runs`, "async"],
      releases: [`${app}/releases`, "Roll back to v1"],
      replicas: [`${app}/replicas`, "Cores, by replica"],
      domains: [`${app}/domains`, "The app has no domains."],
      git: [`${app}/git`, "No push has been seen yet."],
      settings: [`${app}/settings`, "maxReplicaCount"],
      secrets: [`${app}/secrets`, "No secrets yet."],
      danger: [`${app}/danger`, "Restart"],
      keys: [`${project}/keys`, "Service accounts"],
      audit: [`${project}/audit`, "app.create"],
      usage: [`${project}/usage`, "To pay so far"],
      run: [`${app}/runs?status=failure`, "broken"],
      account: ["/dashboard/account", "this session"],
      device: ["/dashboard/device", "Sign in a device"],
      nothing: ["/dashboard/no-such-page", "Page not found"],
    };
    const stranger = await open("/dashboard");
    await lookAtAll(stranger, {
      "sign-in": { url: `${platform.bootstrap.baseUrl}/dashboard`, text: "Password" },
    });
    const reader = await openSignedIn("/dashboard");
    await reader.shows("noisy");
    const sights = Object.entries(texts).map(([name, [path, text]]) => {
      return [name, { url: platform.bootstrap.baseUrl + path, text }] as const;
    });
    await lookAtAll(reader, Object.fromEntries(sights));
    const page = await openSignedIn(`${app}/runs?status=failure&only=async`);
    await page.click("Redrive all failed runs");
    await until("the failed run is run again", async () => {
      const { items } = (
        await platform.api(
          "GET",
          `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}/runs?asyncOnly=true`,
        )
      ).body;
      return items.length === 3;
    });
  });
});
