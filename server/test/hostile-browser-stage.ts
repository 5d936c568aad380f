// A platform with an open app in a hostile hand, and a person who is signed in to its dashboard in
// a real browser and then looks at a page of the app: proxy and management API on one port, as the
// platform has them; the app is the test's.
import assert from "node:assert/strict";
import type { IncomingMessage, RequestListener } from "node:http";
import type { TestContext } from "node:test";
import { createProject } from "#accounts/projects.ts";
import { makePerson } from "./support/person.ts";
import { findBrowser, startBrowser, type Page } from "./support/browser.ts";
import {
  startManagementApi,
  testBy,
  type ApiUnderTest,
  type Json,
} from "./support/management-api.ts";
import { signInOn } from "./support/page-stage.ts";
import {
  helloPath,
  httpReplica,
  openProxyBed,
  projectId,
  type ProxyBed,
} from "./support/proxy-bed.ts";
import { until } from "./support/until.ts";

const person = { email: "ada@example.test", password: "a password for tests" };

/** What the app answers. */
export type Served = {
  readonly status?: number;
  /** Name, value, name, value … */
  readonly headers?: readonly string[];
  readonly body?: string;
};

/** One request that reached the management API or a page of the platform. */
export type Asked = {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
};

export type HostileStage = {
  readonly baseUrl: string;
  /** The app on the host name of its own. */
  readonly pagesUrl: string;
  readonly api: ApiUnderTest;
  /** Signed in to the dashboard. */
  readonly victim: Page;
  /** Reached the platform since the attempt began. */
  readonly asked: Asked[];
  /** Reached the app. */
  readonly called: Asked[];
  /** From here on the app answers so. */
  serve(served: Served): void;
  setRoute: ProxyBed["setRoute"];
  /** The person opens the app's page, in a tab beside the dashboard; `at`: the address. */
  look(served?: Served, at?: string): Promise<Page>;
  /** The browser has lost the session, and the person signs in anew. */
  signInAgain(): Promise<void>;
  /** Which cookies the browser would send there. */
  cookiesFor(url: string): Promise<string[]>;
  /** Before each attempt: nothing is left of the one before. */
  begin(): Promise<void>;
  /**
   * Holds whatever an app does: the person is signed in still, the session was not used, nothing of
   * the platform was changed.
   */
  isUnharmed(): Promise<void>;
};

const plainPage: Served = {
  headers: ["Content-Type", "text/html"],
  body: "<!doctype html><title>hostile</title><p>hello",
};

/** The page of the app. */
export const pagePath = `${helloPath}/page`;

type Fixture = Pick<
  HostileStage,
  "baseUrl" | "pagesUrl" | "api" | "asked" | "called" | "serve" | "setRoute"
>;

/** The platform and the app. */
async function openFixture(t: TestContext): Promise<Fixture> {
  const asked: Asked[] = [];
  const called: Asked[] = [];
  let served = plainPage;
  let platform: RequestListener = () => undefined;
  const bed = await openProxyBed(t, {
    route: { disableAuth: true },
    settings: { runtime: "custom", replicaConcurrency: 100 },
    fallback: (request, response) => {
      asked.push(noted(request));
      platform(request, response);
    },
  });
  bed.setReplicas(
    await httpReplica(t, (request, response) => {
      called.push(noted(request));
      const { status = 200, headers = [], body = "" } = served;
      response.writeHead(status, [...headers]);
      response.end(body);
    }),
  );
  const baseUrl = `http://127.0.0.1:${bed.port}`;
  const api = await startManagementApi(t, {
    listen: (_context, instance) => {
      platform = (request, response) => instance.routing(request, response);
      t.after(() => instance.close());
      return Promise.resolve(baseUrl);
    },
  });
  const id = await makePerson(api.db, { ...person, name: "Ada" });
  await createProject(api.db, { name: "Ada's", ownerId: id, by: testBy });
  const pagesUrl = `http://hello-${projectId}.localhost:${bed.port}`;
  const serve = (next: Served): void => void (served = next);
  return { baseUrl, pagesUrl, api, asked, called, serve, setRoute: bed.setRoute };
}

/** Starts it, with the person signed in. */
export async function startHostileStage(t: TestContext): Promise<HostileStage> {
  const fixture = await openFixture(t);
  const { baseUrl, serve } = fixture;
  const found = findBrowser();
  assert.ok("program" in found);
  const browser = await startBrowser(t, found.program);
  const victim = await browser.open();
  const cookiesFor = async (url: string): Promise<string[]> => {
    const { cookies } = await victim.send("Network.getCookies", { urls: [url] });
    return cookies.map(({ name, value }: Json) => `${name}=${value}`).toSorted();
  };
  const signedIn = new SignedIn(fixture, victim, cookiesFor);
  await signedIn.anew();
  return {
    ...fixture,
    victim,
    cookiesFor,
    signInAgain: () => signedIn.anew(),
    begin: () => signedIn.begin(),
    isUnharmed: () => signedIn.isUnharmed(),
    async look(next = plainPage, at = baseUrl + pagePath) {
      serve(next);
      const page = await browser.open({ beside: victim });
      await page.goTo(at);
      await isLoaded(page, at);
      return page;
    },
  };
}

/** The person's sign-in, and that nothing has become of it. */
class SignedIn {
  readonly #fixture: Fixture;
  readonly #victim: Page;
  readonly #cookiesFor: HostileStage["cookiesFor"];
  #own: string[] = [];
  #state: Json = null;

  constructor(fixture: Fixture, victim: Page, cookiesFor: HostileStage["cookiesFor"]) {
    this.#fixture = fixture;
    this.#victim = victim;
    this.#cookiesFor = cookiesFor;
  }

  async anew(): Promise<void> {
    const { baseUrl, api, asked } = this.#fixture;
    await this.#victim.goTo(`${baseUrl}/dashboard`);
    await signInOn(this.#victim, person);
    await this.#victim.shows("No apps yet.");
    this.#own = await this.#cookiesFor(`${baseUrl}/v2/auth/token`);
    const names = this.#own.map((one) => one.split("=")[0]);
    assert.deepEqual(names, ["slipway_device", "slipway_session"]);
    this.#state = await stateOf(api);
    asked.length = 0;
  }

  async begin(): Promise<void> {
    const { baseUrl, asked, called } = this.#fixture;
    // An app with too many cookies of its own is out of its own reach; the next attempt is another
    // app's.
    const { cookies } = await this.#victim.send("Network.getAllCookies");
    for (const { name, domain, path } of cookies) {
      if (path !== "/v2/auth")
        await this.#victim.send("Network.deleteCookies", { name, domain, path });
    }
    if ((await this.#cookiesFor(`${baseUrl}/v2/auth/token`)).join() !== this.#own.join())
      await this.anew();
    asked.length = 0;
    called.length = 0;
  }

  async isUnharmed(): Promise<void> {
    const { baseUrl, api, asked } = this.#fixture;
    assert.deepEqual(askedWithSession(asked), [], "nothing was sent with the session");
    const now = await this.#cookiesFor(`${baseUrl}/v2/auth/token`);
    assert.deepEqual(now, this.#own, "the platform's cookies are as they were");
    assert.deepEqual(
      await this.#cookiesFor(`${baseUrl}/dashboard`),
      [],
      "no cookie of an app reaches the platform",
    );
    assert.deepEqual(await stateOf(api), this.#state, "nothing was changed");
    await this.#victim.goTo(`${baseUrl}/dashboard`);
    await this.#victim.shows("No apps yet.");
    const workers = "navigator.serviceWorker.getRegistrations().then((all) => all.length)";
    assert.equal(
      await this.#victim.evaluate(workers),
      0,
      "nobody stands between the browser and the platform",
    );
  }
}

function askedWithSession(asked: readonly Asked[]): string[] {
  return asked
    .filter(({ headers }) => headers.cookie?.includes("slipway_session") === true)
    .map(({ method, url }) => `${method} ${url}`);
}

function noted({ method = "", url = "", headers }: IncomingMessage): Asked {
  return { method, url, headers };
}

/** Waits until the page has come to the address. */
export async function isLoaded(page: Page, at: string): Promise<void> {
  const { pathname } = new URL(at);
  await until(`the page is at ${pathname}`, () =>
    page
      .evaluate(
        `location.pathname === ${JSON.stringify(pathname)} && document.readyState === "complete"`,
      )
      // It is between two pages.
      .catch(() => false),
  );
}

/** The page has one frame, in which the browser shows none of the platform. */
export async function hasEmptyFrame(page: Page): Promise<void> {
  await until("the frame has been refused", () =>
    /^chrome-error:[^,]*$/.test(page.frames().join()),
  );
}

/** The page opens the address in a window, and has no hold on it. */
export async function openFrom(page: Page, url: string): Promise<void> {
  await page.evaluate(`void (window.opened = window.open("${url}"))`);
  await until("it is gone from the page's hands", () =>
    page.evaluate("window.opened === null || window.opened.closed"),
  );
}

/**
 * The page opens the dashboard in a window, which is then out of the page's hands: there it is the
 * person's own dashboard, whose requests with the session are no harm.
 */
export async function openDashboardFrom(stage: HostileStage, page: Page): Promise<void> {
  const [opened] = await Promise.all([
    page.context.waitForEvent("page"),
    openFrom(page, `${stage.baseUrl}/dashboard`),
  ]);
  await opened.getByText("No apps yet.").waitFor();
  await opened.close();
  assert.deepEqual(askedWithSession(stage.asked), ["POST /v2/auth/token"]);
  stage.asked.length = 0;
}

/** What a page that acts as the person could change. */
async function stateOf({ db }: ApiUnderTest): Promise<Json> {
  const [sessions, projects, tokens, people] = await Promise.all([
    db.selectFrom("person_sessions").select(["id", "token"]).orderBy("id").execute(),
    db.selectFrom("projects").select(["id", "name", "deleted_at"]).orderBy("id").execute(),
    db.selectFrom("tokens").select(["id", "revoked_at"]).orderBy("id").execute(),
    db.selectFrom("people").select(["id", "email", "name"]).orderBy("id").execute(),
  ]);
  return { sessions, projects, tokens, people };
}

/** One thing that a hostile app tries. */
export type Attempt = (stage: HostileStage, t: TestContext) => Promise<void>;

/** The header of a page. */
export const html = ["Content-Type", "text/html"];
/** A page that sets cookies. */
export function setting(...cookies: readonly string[]): Served {
  return {
    headers: [...html, ...cookies.flatMap((cookie) => ["Set-Cookie", cookie])],
    body: "<p>hello",
  };
}

/** What a page's script gets: a value, or the name of the error. */
export function tried(page: Page, expression: string): Promise<unknown> {
  return page.evaluate(`(async () => ${expression})().catch((error) => error.name)`);
}
