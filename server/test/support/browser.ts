// A real browser for tests of pages: headless Chromium, driven by playwright-core. Elements are
// found as people find them: fields by label, buttons and links by text.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import {
  chromium,
  type Browser as Chromium,
  type BrowserContext,
  type CDPSession,
  type Locator,
  type Page as ChromiumPage,
} from "playwright-core";
import type { TestContext } from "node:test";
import { cleanLast } from "./clean-last.ts";
import { escaped } from "./escaped.ts";
import { temporaryFolder } from "./folder.ts";
import type { Json } from "./management-api.ts";
import { until } from "./until.ts";

/** In order of preference. */
const programs = ["chromium-headless-shell", "chromium", "google-chrome"];
const stepMs = 20_000;
/** A name that leads to this machine and that nobody here has as its own. */
export const strangeName = "strange.test";

/**
 * The path of a Chromium on this machine, or why there is none; throws that reason where nothing
 * may be skipped.
 */
export function findBrowser(): { readonly program: string } | { readonly missing: string } {
  for (const program of programs) {
    const { status, stdout } = spawnSync("which", [program], { encoding: "utf8" });
    if (status === 0) return { program: stdout.trim() };
  }
  const missing = `no Chromium is installed here (looked for ${programs.join(", ")}); on Debian: apt-get install chromium-headless-shell`;
  if (process.env["SLIPWAY_TEST_COMPLETE"] !== undefined) throw new Error(missing);
  return { missing };
}

/**
 * Starts the browser; it stops after the test, and its folder is removed. `more`: further arguments
 * of the program.
 */
export async function startBrowser(
  t: TestContext,
  program: string,
  more: readonly string[] = [],
): Promise<Browser> {
  const folder = temporaryFolder(t, "browser");
  const browser = await chromium.launch({
    executablePath: program,
    args: [
      "--disable-gpu",
      // Only this machine can be reached: a page that requests anything else is a mistake.
      `--host-resolver-rules=MAP ${strangeName} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE *.localhost`,
      ...more,
    ],
    chromiumSandbox: process.getuid?.() !== 0,
    env: { ...process.env, HOME: folder, TMPDIR: folder },
  });
  // The API behind the pages closes first.
  cleanLast(t, () => browser.close());
  return new Browser(browser);
}

/** A running browser. */
export class Browser {
  readonly #browser: Chromium;

  constructor(browser: Chromium) {
    this.#browser = browser;
  }

  /** A new page, with its own cookies or those of the page `beside`. */
  async open(look: Look & { readonly beside?: Page } = {}): Promise<Page> {
    const context = look.beside?.context ?? (await this.#browser.newContext({ viewport: null }));
    const inner = await context.newPage();
    const page = new Page(inner, await context.newCDPSession(inner));
    await page.turnTo(look);
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await page.send(`${domain}.enable`);
    return page;
  }
}

/** The reader's screen: 1200 pixels wide and light by default. */
export type Look = { readonly isDark?: boolean; readonly width?: number };

/** One page. */
export class Page {
  /**
   * Errors reported by the browser: script errors and policy violations, not refusals by the API.
   */
  readonly complaints: string[] = [];
  /** What could not be loaded, for messages of failed tests. */
  readonly #failures: string[] = [];
  /** The page has lost a request to a change of networks since it was last loaded. */
  #isIncomplete = false;
  readonly #page: ChromiumPage;
  readonly #session: CDPSession;

  constructor(page: ChromiumPage, session: CDPSession) {
    this.#page = page;
    this.#session = session;
    session.on("Network.loadingFailed", (failure) => {
      this.#failures.push(`${failure.type}: ${failure.errorText}`);
      if (failure.errorText === networkChanged) this.#isIncomplete = true;
      if (isCutOff(failure)) this.reload().catch(() => undefined);
    });
    session.on("Runtime.exceptionThrown", ({ exceptionDetails }) => {
      this.complaints.push(JSON.stringify(exceptionDetails));
    });
    session.on("Log.entryAdded", ({ entry: { level, source, text } }) => {
      if (level === "error" && source !== "network") this.complaints.push(text);
    });
  }

  /** The cookies and the storage of the page, which other pages may share. */
  get context(): BrowserContext {
    return this.#page.context();
  }

  /** A command of the Chrome DevTools Protocol. */
  async send(method: string, params: Json = {}): Promise<Json> {
    return (await this.#session.send(method as "Page.enable", params as never)) as unknown as Json;
  }

  /** The addresses of the frames in it. */
  frames(): string[] {
    const [, ...inner] = this.#page.frames();
    return inner.map((frame) => frame.url());
  }

  /** Gives the reader another screen. */
  async turnTo({ isDark = false, width = 1200 }: Look): Promise<void> {
    const metrics = { width, height: 800, deviceScaleFactor: 1, mobile: width < 600 };
    await this.send("Emulation.setDeviceMetricsOverride", metrics);
    const scheme = { name: "prefers-color-scheme", value: isDark ? "dark" : "light" };
    await this.send("Emulation.setEmulatedMedia", { features: [scheme] });
  }

  /** Opens the address as if it were typed, again when a network changed meanwhile. */
  async goTo(url: string): Promise<void> {
    const { errorText } = await until(`${url} is not dropped`, async () => {
      const opened = await this.send("Page.navigate", { url });
      return opened.errorText === networkChanged ? undefined : opened;
    });
    if (errorText !== undefined) throw new Error(`${url}: ${errorText}`);
  }

  /** Reloads the page. */
  async reload(): Promise<void> {
    this.#isIncomplete = false;
    await this.send("Page.reload");
  }

  /** Evaluates an expression in the page as a user gesture; promises are awaited. */
  async evaluate(expression: string): Promise<Json> {
    const given = { expression, returnByValue: true, awaitPromise: true, userGesture: true };
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", given);
    if (exceptionDetails !== undefined) throw new Error(JSON.stringify(exceptionDetails));
    return result.value;
  }

  /** All visible text. */
  text(): Promise<string> {
    return this.evaluate("document.body?.innerText ?? ''");
  }

  /** Waits until this text is visible. */
  async shows(text: string): Promise<void> {
    await this.#until(`the page shows "${text}"`, () => this.#hasText(text));
  }

  /**
   * Waits until a page that loads megabytes shows this text. Unlike in `shows`, a request of any
   * kind that a change of networks dropped has the page reloaded: it has no form to lose.
   */
  async loads(text: string, deadlineMs: number): Promise<void> {
    const what = `the page shows "${text}"`;
    await this.#until(what, () => this.#hasText(text), { deadlineMs, isForm: false });
  }

  async #hasText(text: string): Promise<boolean> {
    return (await this.text()).includes(text);
  }

  /**
   * Waits for the condition; a failure says what the page shows instead. A page that stays empty is
   * reloaded, as a person would do.
   */
  async #until(
    what: string,
    condition: () => Promise<boolean>,
    { deadlineMs = stepMs, isForm = true } = {},
  ): Promise<void> {
    let lookMs = Date.now() + deadlineMs / 4;
    const check = async (): Promise<boolean> => {
      if (await condition()) return true;
      if (Date.now() < lookMs) return false;
      lookMs = Date.now() + deadlineMs / 4;
      const isDropped = this.#isIncomplete && !isForm;
      if (isDropped || (await this.text()) === "") await this.reload();
      return false;
    };
    await until(what, check, { deadlineMs }).catch(async (error: unknown) => {
      const wrong = [...this.complaints, ...this.#failures].join("\n");
      throw new Error(`the page shows\n${await this.text()}\n${wrong}`, { cause: error });
    });
  }

  /** Types into the field with this label, replacing its content. */
  async type(label: string, text: string): Promise<void> {
    const field = this.#page
      .getByLabel(label, { exact: true })
      .and(this.#page.locator("input, textarea"));
    await this.#when(`there is a field "${label}"`, field, (shown) =>
      shown.fill(text, { timeout: stepMs }),
    );
  }

  /**
   * Clicks the button or link with this text at its position on the screen, once it is enabled and
   * stands still.
   */
  async click(text: string): Promise<void> {
    const withText = { hasText: new RegExp(`^\\s*${escaped(text)}\\s*$`) };
    const button = this.#page.locator("button, a, summary").filter(withText);
    await this.#when(`there is a button or link "${text}"`, button, (shown) =>
      shown.click({ timeout: stepMs }),
    );
  }

  /** Does something with the first visible element of several. */
  async #when(what: string, found: Locator, act: (shown: Locator) => Promise<void>): Promise<void> {
    const shown = found.filter({ visible: true });
    await this.#until(what, async () => (await shown.count()) > 0);
    await act(shown.first());
  }

  /** The file that the page saves when `act` is done, with the name that it proposes. */
  async download(
    act: () => Promise<void>,
  ): Promise<{ readonly name: string; readonly bytes: Buffer }> {
    const [download] = await Promise.all([
      this.#page.waitForEvent("download", { timeout: stepMs }),
      act(),
    ]);
    return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
  }

  /** Presses a key, such as Tab, or keys at once, such as Control+k. */
  async press(key: string): Promise<void> {
    await this.#page.keyboard.press(key);
  }
}

/**
 * Tests beside this one make and remove network interfaces: Chromium then drops what it is loading,
 * and waits for a person to reload.
 */
const networkChanged = "net::ERR_NETWORK_CHANGED";

/** A part without which there is no page was dropped. */
function isCutOff({
  errorText,
  type,
}: {
  readonly errorText: string;
  readonly type: string;
}): boolean {
  return errorText === networkChanged && !["Fetch", "XHR"].includes(type);
}
