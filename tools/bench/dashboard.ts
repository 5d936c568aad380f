// The dashboard in a real browser, on a platform with many runs and a long log: what the first load
// takes, how soon a page is there with a processor four times slower, and whether long lists and
// logs scroll without a stop.
import type { Client } from "pg";
import type { Page } from "@slipway/server/test/support/browser.ts";
import { serveExamples } from "@slipway/server/test/support/examples.ts";
import { openPages, signInOn } from "@slipway/server/test/support/page-stage.ts";
import { until } from "@slipway/server/test/support/until.ts";
import type { Benchmark } from "./harness/benchmark.ts";
import { connectTo, startDatabaseServer } from "./harness/database-server.ts";
import { table } from "./harness/markdown.ts";
import { deployApp, startBenchPlatform } from "./harness/platform.ts";
import { inRounds, timed } from "./harness/rounds.ts";
import { median, quantile } from "./harness/statistics.ts";

/** `runs` and `lines`: how many the app has had and written to its log. */
type DashboardOptions = { readonly rounds: number; readonly runs: number; readonly lines: number };

const slowdown = 4;
const pagesOfRuns = 10;
/** Enough to go beyond what a page keeps. */
const logPages = 40;

/** `dashboard` */
export const dashboard: Benchmark<DashboardOptions> = {
  name: "dashboard",
  measures: "The dashboard in a browser, with many runs and a long log",
  heading: "Dashboard",
  options: { rounds: 7, runs: 100_000, lines: 1_000_000 },
  async run({ rounds, runs, lines }, { t, print }) {
    const server = await startDatabaseServer(t);
    const url = await server.database("dashboard");
    const platform = await startBenchPlatform(t, {
      SLIPWAY_DATABASE_URL: url,
      SLIPWAY_GIT_URL: await serveExamples(t),
    });
    const { appId } = await deployApp(platform, { name: "hello", gitPath: "hello" });
    const { ownerEmail: email, ownerPassword: password, baseUrl, projectId } = platform.bootstrap;
    await fill(await connectTo(t, url), { runs, lines, projectId, appId });
    print(`filled ${runs} runs and ${lines} lines`);
    const page = await (await openPages(t, baseUrl))("/dashboard");
    await signInOn(page, { email, password });
    await page.shows("hello");
    const app = `${baseUrl}/dashboard/projects/${projectId}/apps/${appId}`;
    const measured = [
      ...(await measureLoad(page, app, rounds)),
      ...(await measureRuns(page, `${app}/runs`)),
      ...(await measureLog(page, `${app}/logs`)),
    ];
    return {
      conditions: `Headless Chromium on the same machine, without a graphics card; ${runs} runs and a log of ${lines} lines.`,
      body: table(["what", "measured"], measured),
    };
  },
};

type Filling = Omit<DashboardOptions, "rounds"> & {
  readonly projectId: string;
  readonly appId: string;
};

async function fill(client: Client, { projectId, appId, runs, lines }: Filling): Promise<void> {
  await client.query(
    `insert into runs (id, project_id, app_id, state, method, path, client_address, retries_max, status_code, reason,
                         accepted_at, due_at, queued_at, started_at, ended_at)
       select gen_random_uuid(), $1, $2, case when i % 50 = 0 then 'failure' else 'success' end, 'POST', '/run', '127.0.0.1', 0,
              case when i % 50 = 0 then 500 else 200 end, case when i % 50 = 0 then 'The function raised ValueError.' end,
              at, at, at, at + interval '3 ms', at + interval '40 ms'
         from generate_series(1, $3::int) as i, lateral (select now() - i * interval '1 second' as at) as times`,
    [projectId, appId, runs],
  );
  await client.query(
    `insert into app_logs (project_id, app_id, replica_id, at, stream, line)
       select $1, $2, 'replica-' || i % 3, now() - ($3::int - i) * interval '10 ms', 'stdout',
              'line ' || i || ' of the log: ' || repeat('x', i % 120)
         from generate_series(1, $3::int) as i`,
    [projectId, appId, lines],
  );
  await client.query("analyze");
}

async function measureLoad(page: Page, address: string, rounds: number): Promise<string[][]> {
  await page.send("Network.setCacheDisabled", { cacheDisabled: true });
  await page.send("Emulation.setCPUThrottlingRate", { rate: slowdown });
  const { identifier } = (await page.send("Page.addScriptToEvaluateOnNewDocument", {
    source: watchForPage,
  })) as {
    readonly identifier: string;
  };
  const load = async (round: number): Promise<number> => {
    await page.goTo(`${address}?round=${round}`);
    const thereAt = (): Promise<number | null> => evaluate(page, "window.thereAt ?? null");
    return Math.round(await until("the page is there", thereAt));
  };
  const times = await inRounds(rounds, load, { warmUps: 0 });
  const bytes = await evaluate<number>(
    page,
    `performance.getEntries().reduce((sum, { transferSize = 0, name }) => sum + (name.includes("/v2/") ? 0 : transferSize), 0)`,
  );
  await page.send("Page.removeScriptToEvaluateOnNewDocument", { identifier });
  await page.send("Emulation.setCPUThrottlingRate", { rate: 1 });
  await page.send("Network.setCacheDisabled", { cacheDisabled: false });
  return [
    ["first load of an app's page, compressed", `${(bytes / 1000).toFixed(0)} kB`],
    [
      `until it is there and answers, with the processor slowed ${slowdown} times`,
      `${median(times)} ms (${Math.min(...times)} to ${Math.max(...times)}, ${times.length} rounds)`,
    ],
  ];
}

/**
 * Sets `thereAt` when the app's name is in the page's heading and a task that a click would be has
 * had its turn.
 */
const watchForPage = `(() => {
  const look = () => {
    if (document.querySelector("h1")?.textContent !== "hello") return requestAnimationFrame(look);
    const channel = new MessageChannel();
    channel.port1.onmessage = () => { window.thereAt = performance.now(); };
    channel.port2.postMessage(0);
  };
  requestAnimationFrame(look);
})()`;

async function measureRuns(page: Page, address: string): Promise<string[][]> {
  await page.goTo(address);
  await page.shows("success");
  const frames = await evaluate<number[]>(page, scrolling("document.scrollingElement", 120));
  const first = "document.querySelector('tbody tr')?.textContent";
  const turnPage = async (): Promise<void> => {
    const before = await evaluate<string | undefined>(page, first);
    await page.click("Older");
    await until("the next page is there", async () => {
      const now = await evaluate<string | undefined>(page, first);
      return now !== undefined && now !== before;
    });
  };
  const times = await inRounds(pagesOfRuns, () => timed(turnPage), { warmUps: 0 });
  const [middle, longest] = [median(times), Math.max(...times)].map(Math.round);
  return [
    ["frames while the runs scroll", framesText(frames)],
    ["the next page of runs", `${middle} ms (at most ${longest}, ${times.length} pages)`],
  ];
}

async function measureLog(page: Page, address: string): Promise<string[][]> {
  await page.goTo(address);
  await page.shows("of the log");
  const log = "document.querySelector('[role=log]')";
  const before = await heapMbOf(page);
  const frames: number[] = [];
  let linesRead = 0;
  for (let count = 0; count < logPages; count++) {
    const newest = await numberInSight(page);
    frames.push(...(await evaluate<number[]>(page, scrolling(log, -240))));
    await until(
      "older lines are there",
      async () => (await evaluate<number>(page, `${log}.scrollTop`)) > 0,
    );
    linesRead += newest - (await numberInSight(page));
  }
  return [
    [`frames while the log scrolls back, ${linesRead} lines`, framesText(frames)],
    ["memory of the page's scripts, before and after", `${before} and ${await heapMbOf(page)} MB`],
  ];
}

/** The number of the first line in sight; waits until lines are drawn. */
async function numberInSight(page: Page): Promise<number> {
  const top = 'document.querySelector("[role=log]").getBoundingClientRect().top';
  const line = `[...document.querySelectorAll("[role=log] bdi")].find((one) => one.getBoundingClientRect().top > ${top})`;
  return await until("lines are drawn", () =>
    evaluate<number>(page, `Number(/line (\\d+)/.exec(${line}?.textContent)?.[1] ?? 0)`),
  );
}

async function evaluate<Result>(page: Page, expression: string): Promise<Result> {
  return (await page.evaluate(expression)) as Result;
}

/** Scrolls the element by so many pixels in each of 60 frames; the milliseconds between frames. */
function scrolling(element: string, px: number): string {
  return `new Promise((resolve) => {
    const deltas = [];
    let last = performance.now();
    const step = () => {
      const now = performance.now();
      deltas.push(now - last);
      last = now;
      ${element}.scrollTop += ${px};
      if (deltas.length < 60) requestAnimationFrame(step);
      else resolve(deltas);
    };
    requestAnimationFrame(step);
  })`;
}

async function heapMbOf(page: Page): Promise<number> {
  await page.send("HeapProfiler.collectGarbage");
  const { usedSize } = (await page.send("Runtime.getHeapUsage")) as { readonly usedSize: number };
  return Math.round(usedSize / 1e6);
}

/** What was measured of the milliseconds between frames while something scrolls. */
function framesText(frames: readonly number[]): string {
  const [middle, p95, longest] = [0.5, 0.95, 1].map((share) => quantile(frames, share).toFixed(1));
  return `${middle} ms median, ${p95} ms p95, ${longest} ms longest of ${frames.length}`;
}
