// The dashboard in a real browser, on a platform with many runs and a long log: what the first load
// takes, how soon a page is there with a processor four times slower, and whether long lists and
// logs scroll without a stop.
import { Client } from "pg";
import type { Page } from "@slipway/server/test/support/browser.ts";
import { deploy, serveExamples } from "@slipway/server/test/support/examples.ts";
import { openPages, signInOn } from "@slipway/server/test/support/page-stage.ts";
import { startPlatform } from "@slipway/server/test/support/platform-process.ts";
import { until } from "@slipway/server/test/support/until.ts";
import { openServer, Stage } from "./async/stage.ts";
import { inContext } from "./in-context.ts";
import { machine } from "./report.ts";

export type DashboardOptions = {
  readonly rounds: number;
  readonly runs: number;
  readonly lines: number;
};

/** Milliseconds between frames while something scrolls. */
type Frames = {
  readonly count: number;
  readonly median: number;
  readonly p95: number;
  readonly longest: number;
};

export type DashboardResult = DashboardOptions & {
  /** Kilobytes over the wire of the first page, compressed. */
  readonly firstLoadKb: number;
  /** Milliseconds until the page is there and answers a click, of each round. */
  readonly interactive: readonly number[];
  readonly runsFrames: Frames;
  /** Milliseconds until the next page of runs is there, of each page. */
  readonly runPages: readonly number[];
  readonly logFrames: Frames;
  /** So many lines were scrolled through. */
  readonly linesRead: number;
  /** Megabytes of scripts' memory with the log open, before and after. */
  readonly heapMb: readonly [number, number];
};

type Print = (line: string) => void;

const slowdown = 4;
const pagesOfRuns = 10;
/** Enough to go beyond what a page keeps. */
const logPages = 40;

/** Rejects when a page does not show what it must. */
export async function benchDashboard(
  options: DashboardOptions,
  print: Print,
): Promise<DashboardResult> {
  const stage = new Stage();
  try {
    const server = await openServer(stage);
    const url = await server.database("dashboard");
    return await inContext(async (t) => {
      const platform = await startPlatform(t, {
        SLIPWAY_DATABASE_URL: url,
        SLIPWAY_GIT_URL: await serveExamples(t),
      });
      const { appId, status } = await deploy(platform, { name: "hello", gitPath: "hello" });
      if (status !== "success") throw new Error(`the build ended with ${status}`);
      await fill(url, { ...options, projectId: platform.bootstrap.projectId, appId });
      print(`filled ${options.runs} runs and ${options.lines} lines`);
      const { ownerEmail: email, ownerPassword: password, baseUrl, projectId } = platform.bootstrap;
      const page = await (await openPages(t, baseUrl))("/dashboard");
      await signInOn(page, { email, password });
      await page.shows("hello");
      const app = `${baseUrl}/dashboard/projects/${projectId}/apps/${appId}`;
      const load = await measureLoad(page, app, options.rounds);
      print(
        `first load ${load.firstLoadKb.toFixed(0)} kB, there after ${load.interactive.join(", ")} ms`,
      );
      const runs = await measureRuns(page, `${app}/runs`);
      print(
        `runs: frames ${framesText(runs.runsFrames)}; next pages after ${runs.runPages.join(", ")} ms`,
      );
      const log = await measureLog(page, `${app}/logs`);
      print(
        `log: ${log.linesRead} lines, frames ${framesText(log.logFrames)}, scripts' memory ${log.heapMb.join(" → ")} MB`,
      );
      return { ...options, ...load, ...runs, ...log };
    });
  } finally {
    await stage.close();
  }
}

type Filling = DashboardOptions & { readonly projectId: string; readonly appId: string };

async function fill(url: string, { projectId, appId, runs, lines }: Filling): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
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
  } finally {
    await client.end();
  }
}

async function measureLoad(page: Page, address: string, rounds: number) {
  await page.send("Network.setCacheDisabled", { cacheDisabled: true });
  await page.send("Emulation.setCPUThrottlingRate", { rate: slowdown });
  const { identifier } = (await page.send("Page.addScriptToEvaluateOnNewDocument", {
    source: watchForPage,
  })) as {
    readonly identifier: string;
  };
  const interactive: number[] = [];
  for (let round = 0; round < rounds; round++) {
    await page.goTo(`${address}?round=${round}`);
    const ms = await until("the page is there", () =>
      evaluate<number | null>(page, "window.thereAt ?? null"),
    );
    interactive.push(Math.round(ms));
  }
  const bytes = await evaluate<number>(
    page,
    `performance.getEntries().reduce((sum, { transferSize = 0, name }) => sum + (name.includes("/v2/") ? 0 : transferSize), 0)`,
  );
  await page.send("Page.removeScriptToEvaluateOnNewDocument", { identifier });
  await page.send("Emulation.setCPUThrottlingRate", { rate: 1 });
  await page.send("Network.setCacheDisabled", { cacheDisabled: false });
  return { firstLoadKb: bytes / 1000, interactive };
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

async function measureRuns(page: Page, address: string) {
  await page.goTo(address);
  await page.shows("success");
  const runsFrames = framesOf(await evaluate(page, scrolling("document.scrollingElement", 120)));
  const runPages: number[] = [];
  const first = "document.querySelector('tbody tr')?.textContent";
  for (let count = 0; count < pagesOfRuns; count++) {
    const before = await evaluate<string | undefined>(page, first);
    const began = performance.now();
    await page.click("Older");
    await until("the next page is there", async () => {
      const now = await evaluate<string | undefined>(page, first);
      return now !== undefined && now !== before;
    });
    runPages.push(Math.round(performance.now() - began));
  }
  return { runsFrames, runPages };
}

async function measureLog(page: Page, address: string) {
  await page.goTo(address);
  await page.shows("of the log");
  const log = "document.querySelector('[role=log]')";
  const before = await heapMbOf(page);
  const all: number[] = [];
  let linesRead = 0;
  for (let count = 0; count < logPages; count++) {
    const newest = await numberInSight(page);
    all.push(...(await evaluate<number[]>(page, scrolling(log, -240))));
    await until(
      "older lines are there",
      async () => (await evaluate<number>(page, `${log}.scrollTop`)) > 0,
    );
    linesRead += newest - (await numberInSight(page));
  }
  return { logFrames: framesOf(all), linesRead, heapMb: [before, await heapMbOf(page)] as const };
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

function framesOf(deltas: readonly number[]): Frames {
  const sorted = deltas.toSorted((one, other) => one - other);
  const at = (share: number): number =>
    Math.round((sorted[Math.floor(share * (sorted.length - 1))] ?? 0) * 10) / 10;
  return { count: sorted.length, median: at(0.5), p95: at(0.95), longest: at(1) };
}

async function heapMbOf(page: Page): Promise<number> {
  await page.send("HeapProfiler.collectGarbage");
  const { usedSize } = (await page.send("Runtime.getHeapUsage")) as { readonly usedSize: number };
  return Math.round(usedSize / 1e6);
}

function framesText({ count, median, p95, longest }: Frames): string {
  return `${median} ms median, ${p95} ms p95, ${longest} ms longest of ${count}`;
}

/** The section of the document, in Markdown. */
export function dashboardSection(result: DashboardResult): string {
  const {
    runs,
    lines,
    firstLoadKb,
    interactive,
    runsFrames,
    runPages,
    logFrames,
    linesRead,
    heapMb,
  } = result;
  const middle = (all: readonly number[]): number =>
    all.toSorted((one, other) => one - other)[all.length >> 1] ?? 0;
  return [
    "## Dashboard",
    "",
    `${new Date().toISOString().slice(0, 10)}, ${machine()}. Headless Chromium on the same machine, without a graphics card; ${runs} runs and a log of ${lines} lines.`,
    "",
    "| what | measured |",
    "|---|---|",
    `| first load of an app's page, compressed | ${firstLoadKb.toFixed(0)} kB |`,
    `| until it is there and answers, with the processor slowed ${slowdown} times | ${middle(interactive)} ms (${Math.min(...interactive)} to ${Math.max(...interactive)}, ${interactive.length} rounds) |`,
    `| frames while the runs scroll | ${framesText(runsFrames)} |`,
    `| the next page of runs | ${middle(runPages)} ms (at most ${Math.max(...runPages)}, ${runPages.length} pages) |`,
    `| frames while the log scrolls back, ${linesRead} lines | ${framesText(logFrames)} |`,
    `| memory of the page's scripts, before and after | ${heapMb.join(" and ")} MB |`,
    "",
  ].join("\n");
}
