// A real browser for tests of pages: headless Chromium, driven through its own pipe (Chrome DevTools Protocol), so that no
// package is needed. Elements are found as people find them: fields by label, buttons and links by text.
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import type { TestContext } from "node:test";
import { cleanLast } from "./clean-last.ts";
import { temporaryFolder } from "./folder.ts";
import type { Json } from "./management-api.ts";
import { until } from "./until.ts";

/** In order of preference. */
const programs = ["chromium-headless-shell", "chromium", "google-chrome"];
const stepMs = 20_000;

/** The path of a Chromium on this machine, or why there is none; throws that reason where nothing may be skipped. */
export function findBrowser(): { readonly program: string } | { readonly missing: string } {
  for (const program of programs) {
    const { status } = spawnSync(program, ["--version"], { timeout: 30_000 });
    if (status === 0) return { program };
  }
  const missing = `no Chromium is installed here (looked for ${programs.join(", ")}); on Debian: apt-get install chromium-headless-shell`;
  if (process.env["SLIPWAY_TEST_COMPLETE"] !== undefined) throw new Error(missing);
  return { missing };
}

type Answer = {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Json;
  readonly result?: Json;
  readonly error?: Json;
};

/** The protocol over a pipe: JSON messages, each terminated by a zero byte. */
class Protocol {
  readonly #to: Writable;
  readonly #waiting = new Map<number, { resolve: (result: Json) => void; reject: (error: Error) => void }>();
  readonly #listeners = new Set<(message: Answer) => void>();
  #rest = Buffer.alloc(0);
  #last = 0;

  constructor(child: ChildProcess) {
    this.#to = child.stdio[3] as Writable;
    const from = child.stdio[4] as Readable;
    from.on("data", (chunk: Buffer) => this.#take(chunk));
    this.#to.on("error", () => undefined);
    child.on("exit", () => {
      for (const { reject } of this.#waiting.values()) reject(new Error("the browser has ended"));
      this.#waiting.clear();
    });
  }

  send(method: string, params: Json = {}, sessionId?: string): Promise<Json> {
    const id = ++this.#last;
    const message = JSON.stringify({ id, method, params, ...(sessionId === undefined ? {} : { sessionId }) });
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#to.write(`${message}\0`);
    });
  }

  listen(listener: (message: Answer) => void): void {
    this.#listeners.add(listener);
  }

  #take(chunk: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    for (let end = this.#rest.indexOf(0); end !== -1; end = this.#rest.indexOf(0)) {
      const message = JSON.parse(this.#rest.subarray(0, end).toString()) as Answer;
      this.#rest = this.#rest.subarray(end + 1);
      const waiting = message.id === undefined ? undefined : this.#waiting.get(message.id);
      if (message.id !== undefined) this.#waiting.delete(message.id);
      if (waiting === undefined) for (const listener of this.#listeners) listener(message);
      else if (message.error === undefined) waiting.resolve(message.result);
      else waiting.reject(new Error(JSON.stringify(message.error)));
    }
  }
}

/** Starts the browser; it stops after the test, and its folder is removed. */
export async function startBrowser(t: TestContext, program: string): Promise<Browser> {
  const folder = temporaryFolder(t, "browser");
  const child = spawn(
    program,
    [
      "--headless",
      "--remote-debugging-pipe",
      `--user-data-dir=${folder}`,
      "--no-first-run",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--disable-background-networking",
      // Only this machine can be reached: a page that requests anything else is a mistake.
      "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE *.localhost",
      ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
    ],
    { detached: true, stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"], env: { ...process.env, HOME: folder } },
  );
  await once(child, "spawn");
  const protocol = new Protocol(child);
  // The API behind the pages closes first.
  cleanLast(t, () => end(child, protocol));
  return new Browser(protocol);
}

/** Asks the browser to close, so that it ends its own processes, and then kills what is left of its process group. */
async function end(child: ChildProcess, protocol: Protocol): Promise<void> {
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  protocol.send("Browser.close").catch(() => undefined);
  await until("the browser ends", hasEnded, { deadlineMs: 5_000 }).catch(() => undefined);
  try {
    process.kill(-(child.pid ?? 0), "SIGKILL");
  } catch {
    // The process group is already empty.
  }
  await until("the browser is gone", hasEnded);
  for (const stream of child.stdio) stream?.destroy();
}

/** A running browser. */
export class Browser {
  readonly #protocol: Protocol;

  constructor(protocol: Protocol) {
    this.#protocol = protocol;
  }

  /** A new page, with its own cookies or those of the page `beside`. */
  async open(look: Look & { readonly beside?: Page } = {}): Promise<Page> {
    const send = this.#protocol.send.bind(this.#protocol);
    const { browserContextId } = look.beside ?? (await send("Target.createBrowserContext"));
    const { targetId } = await send("Target.createTarget", { url: "about:blank", browserContextId });
    const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page((method, params) => send(method, params, sessionId), browserContextId);
    this.#protocol.listen((message) => {
      if ((message as Json).sessionId === sessionId) page.hear(message.method ?? "", message.params);
    });
    await page.turnTo(look);
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await page.send(`${domain}.enable`);
    return page;
  }
}

/** The reader's screen: 1200 pixels wide and light by default. */
export type Look = { readonly isDark?: boolean; readonly width?: number };

/** One page. */
export class Page {
  readonly send: (method: string, params?: Json) => Promise<Json>;
  /** Errors reported by the browser: script errors and policy violations, not refusals by the API. */
  readonly complaints: string[] = [];
  /** What could not be loaded, for messages of failed tests. */
  readonly #failures: string[] = [];

  readonly browserContextId: string;

  constructor(send: Page["send"], browserContextId: string) {
    this.send = send;
    this.browserContextId = browserContextId;
  }

  /** Handles an event of the browser. */
  hear(method: string, params: Json): void {
    if (method === "Network.loadingFailed") {
      this.#failures.push(`${params.type}: ${params.errorText}`);
      if (isCutOff(params)) this.reload().catch(() => undefined);
    }
    if (method === "Runtime.exceptionThrown") this.complaints.push(JSON.stringify(params.exceptionDetails));
    if (method !== "Log.entryAdded") return;
    const { level, source, text } = params.entry;
    if (level === "error" && source !== "network") this.complaints.push(text);
  }

  /** Gives the reader another screen. */
  async turnTo({ isDark = false, width = 1200 }: Look): Promise<void> {
    const metrics = { width, height: 800, deviceScaleFactor: 1, mobile: width < 600 };
    await this.send("Emulation.setDeviceMetricsOverride", metrics);
    const scheme = { name: "prefers-color-scheme", value: isDark ? "dark" : "light" };
    await this.send("Emulation.setEmulatedMedia", { features: [scheme] });
  }

  /** Opens the address as if it were typed. */
  async goTo(url: string): Promise<void> {
    const { errorText } = await this.send("Page.navigate", { url });
    if (errorText !== undefined && errorText !== networkChanged) throw new Error(`${url}: ${errorText}`);
  }

  /** Reloads the page. */
  async reload(): Promise<void> {
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
    await this.#until(`the page shows "${text}"`, async () => (await this.text()).includes(text));
  }

  /** In time for a step; a failure says what the page shows instead. A page that stays empty is reloaded, as a person would do. */
  async #until(what: string, condition: () => Promise<boolean>): Promise<void> {
    let lookMs = Date.now() + stepMs / 4;
    const check = async (): Promise<boolean> => {
      if (await condition()) return true;
      if (Date.now() < lookMs) return false;
      lookMs = Date.now() + stepMs / 4;
      if ((await this.text()) === "") await this.reload();
      return false;
    };
    await until(what, check, { deadlineMs: stepMs }).catch(async (error: unknown) => {
      const wrong = [...this.complaints, ...this.#failures].join("\n");
      throw new Error(`the page shows\n${await this.text()}\n${wrong}`, { cause: error });
    });
  }

  /** Types into the field with this label, replacing its content. */
  async type(label: string, text: string): Promise<void> {
    const valueOf = `${finders}; fieldOf(${JSON.stringify(label)})?.value ?? null`;
    await this.#until(`there is a field "${label}" that takes the text`, async () => {
      const hasFocus = await this.evaluate(`${finders}; (() => {
          const field = fieldOf(${JSON.stringify(label)});
          field?.focus();
          field?.select();
          return field !== undefined && document.activeElement === field;
        })()`);
      if (!hasFocus) return false;
      const before = await this.evaluate(valueOf);
      await this.send("Input.insertText", { text });
      const value = await this.evaluate(valueOf);
      // The page may have been drawn anew, or have moved the focus; it may also make something else of the text.
      return value === text || value !== before;
    });
  }

  /** Clicks the button or link with this text at its position on the screen; again when it has moved away under the pointer. */
  async click(text: string): Promise<void> {
    const find = `${finders}; (async () => {
      const element = clickable(${JSON.stringify(text)});
      if (element === undefined || element.disabled) return null;
      element.scrollIntoView({ block: "center" });
      const before = element.getBoundingClientRect();
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      const { x, y, width, height } = element.getBoundingClientRect();
      // Nobody hits what is still moving.
      if (x !== before.x || y !== before.y) return null;
      const point = { x: x + width / 2, y: y + height / 2 };
      if (!element.contains(document.elementFromPoint(point.x, point.y))) return null;
      ${watchClick}
      return point;
    })()`;
    await this.#until(`there is a button or link "${text}"`, async () => {
      const place = await this.evaluate(find);
      if (place === null) return false;
      for (const type of ["mousePressed", "mouseReleased"]) {
        await this.send("Input.dispatchMouseEvent", { type, ...place, button: "left", clickCount: 1 });
      }
      // A page that was left for another one knows nothing of it.
      return (await this.evaluate("window.clicked")) !== "elsewhere";
    });
  }

  /** Presses a key, such as Tab or Enter. */
  async press(key: "Tab" | "Enter"): Promise<void> {
    const code = key === "Tab" ? 9 : 13;
    const event = { key, code: key, windowsVirtualKeyCode: code, ...(key === "Enter" ? { text: "\r" } : {}) };
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", ...event });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", key, code: key, windowsVirtualKeyCode: code });
  }
}

/** Tests beside this one make and remove network interfaces: Chromium then drops what it is loading, and waits for a person to reload. */
const networkChanged = "net::ERR_NETWORK_CHANGED";

/** A part without which there is no page was dropped. */
function isCutOff({ errorText, type }: Json): boolean {
  return errorText === networkChanged && !["Fetch", "XHR"].includes(type);
}

/** Tells what the next click hits; one that does not hit the element does nothing. */
const watchClick = `
      window.clicked = "elsewhere";
      document.addEventListener("click", (event) => {
        if (element.contains(event.target)) {
          window.clicked = "it";
        } else {
          event.stopImmediatePropagation();
          event.preventDefault();
        }
      }, { capture: true, once: true });`;

/** Finds elements as people do: visible ones only. */
const finders = `
  var isShown = (element) => element.checkVisibility() && element.getClientRects().length > 0;
  var fieldOf = (text) => [...document.querySelectorAll("label")]
    .filter((label) => isShown(label) && label.textContent.trim() === text)
    .map((label) => label.control)[0];
  var clickable = (text) => [...document.querySelectorAll("button, a, summary")]
    .filter((element) => isShown(element) && element.textContent.trim() === text)[0]`;
