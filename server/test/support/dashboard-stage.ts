// A platform with an app that has builds, releases, runs and logs, some of them hostile or failed,
// and a browser in which its owner looks at the dashboard; with what looks at a page as a whole:
// axe-core, and pictures for people.
import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { Page } from "./browser.ts";
import { deploy, serveExamples } from "./examples.ts";
import type { Json } from "./management-api.ts";
import { openPages, signInOn, type OpenPage } from "./page-stage.ts";
import { startPlatform, type PlatformProcess } from "./platform-process.ts";
import { until } from "./until.ts";

const axeFile = join(import.meta.dirname, "../../../dashboard/node_modules/axe-core/axe.min.js");

/** In which each page is looked at. */
export const looks = {
  light: { width: 1280 },
  dark: { width: 1280, isDark: true },
  phone: { width: 375 },
} as const;

/**
 * Markup, codes for terminals, control characters, and text that runs the other way; none may have
 * an effect.
 */
const hostileLine =
  "<img src=x onerror=\"window.hacked='line'\"> \u001b]0;hacked\u0007\u001b[31mred\u001b[0m \u0000\u0008 \u202Ereversed";

const noisy = {
  "noisy/cerebrium.toml": `[cerebrium.deployment]\nname = "noisy"\n[cerebrium.hardware]\ncpu = 0.5\nmemory = 0.5\n[cerebrium.scaling]\nmin_replicas = 0\nmax_replicas = 2\ncooldown = 600\n`,
  "noisy/main.py": `import sys\n\ndef run(lines: int = 3, fail: bool = False):\n    for number in range(lines):\n        print(f"line {number} of {lines}")\n    print(${JSON.stringify(hostileLine)})\n    print("a warning", file=sys.stderr)\n    if fail:\n        raise ValueError(${JSON.stringify("<b>broken</b>")})\n    return {"lines": lines}\n`,
} as const;

export type DashboardStage = {
  readonly platform: PlatformProcess;
  readonly open: OpenPage;
  /** Opens a page as the owner. */
  openSignedIn(path: string, look?: Parameters<OpenPage>[1]): Promise<Page>;
};

/**
 * Starts the platform, with a repository of the examples and of the app that prints hostile lines.
 */
export async function startDashboard(t: TestContext): Promise<DashboardStage> {
  const platform = await startPlatform(t, {
    SLIPWAY_GIT_URL: await serveExamples(t, noisy),
    SLIPWAY_METERING_SECONDS: "1",
  });
  const { baseUrl, ownerEmail, ownerPassword } = platform.bootstrap;
  const open = await openPages(t, baseUrl);
  return {
    platform,
    open,
    async openSignedIn(path, look) {
      const page = await open(path, look);
      await signInOn(page, { email: ownerEmail, password: ownerPassword });
      return page;
    },
  };
}

/**
 * Fills it: `noisy` with two releases, good and failed runs and an async one; `broken` with a
 * failed build.
 */
export async function fillPlatform(
  platform: PlatformProcess,
): Promise<{ appId: string; buildId: string }> {
  const { projectId } = platform.bootstrap;
  const { appId, buildId, status } = await deploy(platform, { name: "noisy", gitPath: "noisy" });
  assert.equal(status, "success");
  await deploy(platform, { name: "broken", gitPath: "no-such-folder" });
  const path = `/v2/projects/${projectId}/apps/${appId}`;
  for (const body of [{}, { lines: 40 }, { fail: true }])
    await (await platform.call("noisy", "run", body)).text();
  await (await platform.call("noisy", "run?async=true", { lines: 2 })).text();
  await (
    await platform.call(
      "noisy",
      "run?async=true",
      { fail: true },
      { headers: { "slipway-retries": "0" } },
    )
  ).text();
  const changed = await platform.api("PATCH", path, { cpu: 0.75 });
  assert.equal(changed.status, 200, JSON.stringify(changed.body));
  await until(
    "the second release is live",
    async () => (await platform.api("GET", path)).body.liveRelease === 2,
    {
      deadlineMs: 120_000,
    },
  );
  const usage = `/v2/projects/${projectId}/usage?group_by=day`;
  await until(
    "usage is metered",
    async () => (await platform.api("GET", usage)).body.items?.length > 0,
    {
      deadlineMs: 150_000,
    },
  );
  const metrics = `${path}/resource-metrics`;
  await until(
    "what replicas use is measured",
    async () => (await platform.api("GET", metrics)).body.cpu?.series?.length > 0,
    {
      deadlineMs: 150_000,
    },
  );
  await until("both async runs have ended", async () => {
    const { items } = (await platform.api("GET", `${path}/runs?asyncOnly=true`)).body as {
      items: Json[];
    };
    return items.length === 2 && items.every(({ endedAt }) => endedAt !== null);
  });
  return { appId, buildId };
}

/** What axe-core finds on the page, as `rule: elements`. */
export async function axeFindings(page: Page): Promise<string[]> {
  const isThere = await page.evaluate("'axe' in window");
  if (isThere !== true) await page.evaluate(`${await readFile(axeFile, "utf8")}; undefined`);
  const { violations } = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })");
  return violations.map(
    ({ id, nodes }: Json) =>
      `${id}: ${nodes.map(({ html, failureSummary }: Json) => `${html} ${failureSummary}`).join("; ")}`,
  );
}

/** Where pictures of the pages go, for people who look at them; undefined: nobody asked. */
const picturesFolder = process.env["SLIPWAY_TEST_PICTURES"];

/** Waits until nothing of the page is awaited any more. */
export async function isWhole(page: Page): Promise<void> {
  await until("the page is whole", () =>
    page.evaluate("document.querySelector('.waiting, [role=status][aria-label=Loading]') === null"),
  );
}

/** Takes a picture of the page, if somebody wants them. */
export async function takePicture(page: Page, name: string): Promise<void> {
  if (picturesFolder === undefined) return;
  const { data } = await page.send("Page.captureScreenshot", {
    format: "png",
    captureBeyondViewport: false,
  });
  await mkdir(picturesFolder, { recursive: true });
  await writeFile(join(picturesFolder, `${name}.png`), Buffer.from(data as string, "base64"));
}
