// The pages in a real browser: signing in on the dashboard, approving a device, accepting an
// invitation. Without a Chromium on the machine these tests are skipped, and say so.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test, type TestContext } from "node:test";
import { createProject } from "#accounts/projects.ts";
import type { ProjectId } from "#lib/ids.ts";
import { makePerson } from "./support/person.ts";
import type { Page } from "./support/browser.ts";
import {
  startManagementApi,
  testBy,
  type ApiUnderTest,
  type Json,
} from "./support/management-api.ts";
import { openPages, signInOn, withoutBrowser, type OpenPage } from "./support/page-stage.ts";
import { until } from "./support/until.ts";

const password = "a password for tests";

type Person = { readonly id: string; readonly email: string; readonly projectId: ProjectId };

async function addPerson(api: ApiUnderTest, name: string): Promise<Person> {
  const email = `${name.toLowerCase()}-${randomUUID().slice(0, 8)}@example.org`;
  const id = await makePerson(api.db, { email, name, password });
  return {
    id,
    email,
    projectId: await createProject(api.db, { name: `of ${name}`, ownerId: id, by: testBy }),
  };
}

type Stage = { readonly api: ApiUnderTest; readonly open: OpenPage };

async function setUp(t: TestContext): Promise<Stage> {
  const api = await startManagementApi(t);
  return { api, open: await openPages(t, api.baseUrl) };
}

function signIn(page: Page, email: string): Promise<void> {
  return signInOn(page, { email, password });
}

/** As a command line begins it. */
async function beginDevice(api: ApiUnderTest): Promise<Json> {
  const headers = { "user-agent": "slipway/0.1.0 (linux x64)" };
  const { body } = await api.call("POST", "/device-authorization", {
    token: null,
    body: {},
    headers,
  });
  return body.deviceAuthResponsePayload;
}

async function redeem(api: ApiUnderTest, deviceCode: string): Promise<Json> {
  return (await api.call("POST", "/token", { token: null, body: { device_code: deviceCode } }))
    .body;
}

describe("pages in a browser", { skip: withoutBrowser }, () => {
  test("a person signs in with email and password, stays signed in when the page is loaded again, and signs out", async (t) => {
    const { api, open } = await setUp(t);
    const ada = await addPerson(api, "Ada");
    const page = await open("/dashboard");
    await page.type("Email", ada.email);
    await page.type("Password", "not the password");
    await page.press("Enter");
    await page.shows("The email address or the password is wrong.");
    assert.equal(
      await page.evaluate("document.querySelector('[role=alert]:not(:empty)').textContent !== ''"),
      true,
    );
    await signIn(page, ada.email);
    await page.shows("No apps yet.");
    await page.reload();
    await page.shows("No apps yet.");
    assert.equal(await page.evaluate("document.cookie"), "", "no script can read the session");
    assert.deepEqual(await page.evaluate("[localStorage.length, sessionStorage.length]"), [0, 0]);
    await page.click("Sign out");
    await page.type("Email", ada.email);
    await page.reload();
    await page.shows("Password");
    const left = await api.db
      .selectFrom("person_sessions")
      .selectAll()
      .where("person_id", "=", ada.id)
      .execute();
    assert.deepEqual(left, []);
  });

  test("a token of a service account opens the dashboard for this tab, and cannot approve devices", async (t) => {
    const { api, open } = await setUp(t);
    const page = await open("/dashboard");
    await page.click("Use a service account token");
    await page.type("Token", api.token);
    await page.click("Use this token");
    await page.shows("No apps yet.");
    await page.goTo(`${api.baseUrl}/dashboard/device`);
    await page.shows("Sign in");
    assert.equal((await page.text()).includes("Use a service account token"), false);
  });

  test("a device is approved: signing in comes first, the code and what asks are shown, and only then it gets tokens", async (t) => {
    const { api, open } = await setUp(t);
    const ada = await addPerson(api, "Ada");
    const device = await beginDevice(api);
    const page = await open(
      new URL(device.verification_uri_complete).pathname +
        new URL(device.verification_uri_complete).search,
    );
    await signIn(page, ada.email);
    await page.shows("Sign in this device?");
    for (const text of [device.user_code, "slipway/0.1.0 (linux x64)", "127.0.0.1", ada.email])
      await page.shows(text);
    assert.equal((await redeem(api, device.device_code)).error, "authorization_pending");
    await page.click("Approve");
    await page.shows("The device is signed in");
    assert.equal(
      await page.evaluate("document.activeElement.textContent"),
      "The device is signed in",
    );
    const tokens = await until("the device has its tokens", async () => {
      const answer = await redeem(api, device.device_code);
      return answer.accessToken === undefined ? null : answer;
    });
    const { body } = await api.call("GET", "/v2/auth/session", { token: tokens.accessToken });
    assert.equal(body.person.email, ada.email);
  });

  test("a code is typed by hand with the keyboard alone, a wrong one is told, and a device is refused", async (t) => {
    const { api, open } = await setUp(t);
    const ada = await addPerson(api, "Ada");
    const page = await open("/dashboard/device");
    await signIn(page, ada.email);
    await page.type("Code shown by your command line", "bcdf ghjk");
    await page.press("Enter");
    await page.shows("No device is showing this code");
    const device = await beginDevice(api);
    await page.type("Code shown by your command line", device.user_code.toLowerCase());
    await page.press("Tab");
    await page.press("Enter");
    await page.shows("Sign in this device?");
    await page.click("Deny");
    await page.shows("The device was denied");
    assert.equal((await redeem(api, device.device_code)).error, "access_denied");
  });

  test("somebody new accepts an invitation and is in the project; the link is then used up", async (t) => {
    const { api, open } = await setUp(t);
    const email = `new-${randomUUID().slice(0, 8)}@example.org`;
    const path = `/v2/projects/${api.projectId}/invitations`;
    const { body } = await api.call("POST", path, { body: { email, role: "member" } });
    const page = await open(new URL(body.link).pathname);
    await page.shows("Join first");
    await page.type("Your name", "Grace");
    await page.type("Password", password);
    await page.click("Join");
    await page.shows("No apps yet.");
    assert.equal(await page.evaluate("location.pathname"), `/dashboard/projects/${api.projectId}`);
    const again = await open(new URL(body.link).pathname);
    await again.shows("This invitation cannot be used");
  });

  test("somebody known accepts an invitation after signing in, and nobody else can", async (t) => {
    const { api, open } = await setUp(t);
    const ada = await addPerson(api, "Ada");
    const bob = await addPerson(api, "Bob");
    const path = `/v2/projects/${api.projectId}/invitations`;
    const { body } = await api.call("POST", path, { body: { email: ada.email, role: "billing" } });
    const other = await open("/dashboard");
    await signIn(other, bob.email);
    await other.shows("No apps yet.");
    await other.goTo(body.link);
    await other.shows(`The invitation is for ${ada.email}, but you are signed in as ${bob.email}.`);
    await other.click(`Sign in as ${ada.email}`);
    await other.type("Password", password);
    await other.click("Sign in");
    await other.click("Join first");
    await until("the membership is there", async () => {
      const { body: members } = await api.call("GET", `/v2/projects/${api.projectId}/members`);
      return members.some((one: Json) => one.email === ada.email && one.role === "billing");
    });
  });
});

describe("pages for everybody", { skip: withoutBrowser }, () => {
  const paths = [
    "/dashboard",
    "/dashboard/device",
    "/dashboard/forgot-password",
    "/dashboard/reset-password/secret",
  ];

  test("each field has a label, the page a language, a title and one main heading", async (t) => {
    const { open } = await setUp(t);
    for (const path of paths) {
      const page = await open(path);
      await until(`${path} has a form`, () =>
        page.evaluate("document.querySelector('form') !== null"),
      );
      const look = await page.evaluate(`({
        unlabelled: [...document.querySelectorAll("input")].filter((input) => input.labels.length === 0).length,
        withoutPurpose: [...document.querySelectorAll("input")].filter((input) => !input.autocomplete).length,
        headings: document.querySelectorAll("h1").length,
        language: document.documentElement.lang,
        title: document.title,
        alerts: document.querySelectorAll("form [role=alert]").length > 0,
      })`);
      assert.deepEqual(
        [look.unlabelled, look.withoutPurpose, look.headings, look.language, look.alerts],
        [0, 0, 1, "en", true],
        path,
      );
      assert.match(look.title, /\S – Slipway$/, path);
    }
  });

  test("a phone shows pages without scrolling sideways, with buttons that a thumb can hit", async (t) => {
    const { open } = await setUp(t);
    for (const path of paths) {
      const page = await open(path, { width: 320 });
      await until(`${path} has a form`, () =>
        page.evaluate("document.querySelector('form') !== null"),
      );
      const look = await page.evaluate(`({
        overhang: document.documentElement.scrollWidth - document.documentElement.clientWidth,
        lowest: Math.min(...[...document.querySelectorAll("button, input")]
          .filter((one) => one.checkVisibility()).map((one) => one.getBoundingClientRect().height)),
      })`);
      assert.ok(look.overhang <= 0, `${path} is ${look.overhang} px too wide`);
      assert.ok(look.lowest >= 44, `${path} has something ${look.lowest} px high`);
    }
  });

  test("the list of apps and an app's page say why replicas wait", async (t) => {
    const reason =
      "All of the platform's ADA_L4 is in use; a replica starts when some is free again.";
    const api = await startManagementApi(t, { waitReason: () => reason });
    const open = await openPages(t, api.baseUrl);
    const body = { name: "waiting", gitRepo: "acme/app" };
    await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body });
    const page = await open("/dashboard");
    await page.click("Use a service account token");
    await page.type("Token", api.token);
    await page.click("Use this token");
    await page.shows(reason);
    const heads = "[...document.querySelectorAll('th')].map((head) => head.textContent)";
    assert.deepEqual(((await page.evaluate(heads)) as string[]).slice(0, 3), [
      "App",
      "State",
      "Why",
    ]);
    await page.click("waiting");
    await page.shows("Endpoint");
    await page.shows(reason);
  });

  test("text is readable on its background in light and dark", async (t) => {
    const { open } = await setUp(t);
    for (const isDark of [false, true]) {
      const page = await open("/dashboard", { isDark });
      await until("there is a form", () =>
        page.evaluate("document.querySelector('form') !== null"),
      );
      const pairs: Json[] = await page.evaluate(contrasts);
      assert.ok(pairs.length > 5, `${pairs.length} texts`);
      for (const { text, ratio } of pairs)
        assert.ok(ratio >= 4.5, `${text}: ${ratio} (dark: ${isDark})`);
    }
  });
});

/** Each shown text with the contrast to its background, as WCAG 2.2 counts it. */
const contrasts = `(() => {
  const canvas = document.createElement("canvas").getContext("2d");
  const rgb = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((one) => one / 255).map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const background = (element) => {
    for (let at = element; at !== null; at = at.parentElement) {
      const color = rgb(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll("body *")]
    .filter((one) => one.checkVisibility() && [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== ""))
    .map((one) => {
      const [high, low] = [light(rgb(getComputedStyle(one).color)), light(background(one))].toSorted((a, b) => b - a);
      return { text: one.textContent, ratio: (high + 0.05) / (low + 0.05) };
    });
})()`;
