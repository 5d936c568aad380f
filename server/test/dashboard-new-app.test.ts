// What the dashboard offers from everywhere, in a real browser: the command palette and its keys,
// the page that makes an app with all its settings, and what is shown while the connection is lost
// or the session has ended.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, test, type TestContext } from "node:test";
import { createProject } from "#accounts/projects.ts";
import type { ReplicaId } from "#lib/ids.ts";
import "./support/leftovers.ts";
import type { Page } from "./support/browser.ts";
import { axeFindings, looks, takePicture } from "./support/dashboard-stage.ts";
import { lookAt } from "./support/every-look.ts";
import { startGitServer } from "./support/git-server.ts";
import {
  startManagementApi,
  testBy,
  type ApiUnderTest,
  type Json,
} from "./support/management-api.ts";
import { openPages, signInOn, withoutBrowser, type OpenPage } from "./support/page-stage.ts";
import { makePerson } from "./support/person.ts";
import { until } from "./support/until.ts";

const hostileName = `<img src=x onerror="window.hacked=1"> \u202E ${"long".repeat(10)}`;

async function isAt(page: Page, path: string): Promise<void> {
  await until(
    `the address is ${path}`,
    async () => (await page.evaluate("location.pathname + location.search")) === path,
  );
}

async function useToken(page: Page, token: string): Promise<void> {
  await page.click("Use a service account token");
  await page.type("Token", token);
  await page.click("Use this token");
}

const chosen = "document.querySelector('[role=option][aria-selected=true] bdi')?.textContent";
const isOpen = "document.querySelector('dialog[open]') !== null";

type Stage = { readonly api: ApiUnderTest; readonly open: OpenPage; readonly project: string };

async function openStage(
  t: TestContext,
  options: Parameters<typeof startManagementApi>[1] = {},
): Promise<Stage> {
  const api = await startManagementApi(t, options);
  return {
    api,
    open: await openPages(t, api.baseUrl),
    project: `/dashboard/projects/${api.projectId}`,
  };
}

async function createApp({ api }: Stage, name: string): Promise<string> {
  const body = { name, gitRepo: "a/b" };
  const made = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body.appId;
}

describe("the command palette", { skip: withoutBrowser }, () => {
  test("opens by keys, finds by parts of names, goes there, and gives the focus back", async (t) => {
    const stage = await openStage(t);
    const { api, open, project } = stage;
    const appId = await createApp(stage, "image-resize");
    await api.addProject(hostileName);
    const page = await open(project);
    await useToken(page, await api.issue({ kind: "operator" }));
    await page.shows("image-resize");
    await page.evaluate("document.querySelector('main a').focus()");
    await page.press("Control+k");
    await until("the palette is open", () => page.evaluate(isOpen));
    await page.press("Escape");
    await until("the palette is closed", async () => !(await page.evaluate(isOpen)));
    assert.equal(await page.evaluate("document.activeElement.closest('main') !== null"), true);
    await page.press("/");
    await page.shows("this project");
    await page.send("Input.insertText", { text: "onerror" });
    await until("the project is found", async () => (await page.evaluate(chosen)) === hostileName);
    await page.evaluate("document.activeElement.select()");
    await page.send("Input.insertText", { text: "img rsz" });
    await until("the app is found", async () => (await page.evaluate(chosen)) === "image-resize");
    await page.press("Enter");
    await isAt(page, `${project}/apps/${appId}`);
    await until("the palette is closed", async () => !(await page.evaluate(isOpen)));
    await page.press("g");
    await page.press("b");
    await isAt(page, `${project}/apps/${appId}/builds`);
    await page.press("g");
    await page.press("a");
    await isAt(page, project);
    await page.press("c");
    await isAt(page, `${project}/new`);
    await page.press("?");
    await page.shows("Keyboard shortcuts");
    await page.evaluate("document.querySelector('dialog input').click()");
    await page.click("Close");
    await page.press("g");
    await page.press("a");
    await page.press("Control+k");
    await until("Ctrl K still works", () => page.evaluate(isOpen));
    await isAt(page, `${project}/new`);
    await page.press("ArrowDown");
    const second = await until("another line is chosen", async () => {
      const name = await page.evaluate(chosen);
      return name !== "Apps" && name;
    });
    await page.press("ArrowUp");
    await until("the one before is chosen", async () => (await page.evaluate(chosen)) !== second);
    assert.equal(await page.evaluate("window.hacked"), undefined);
  });

  test("is read out as it looks, in light, dark and on a phone", async (t) => {
    const stage = await openStage(t);
    await createApp(stage, "image-resize");
    await stage.api.addProject(hostileName);
    const token = await stage.api.issue({ kind: "operator" });
    const findings: string[] = [];
    for (const [look, size] of Object.entries(looks)) {
      const page = await stage.open(stage.project, size);
      await useToken(page, token);
      await page.shows("image-resize");
      await page.press("Control+k");
      await page.shows("onerror");
      findings.push(...(await lookAt(page, "palette", look)));
      await page.press("Escape");
      await until("the palette is closed", async () => !(await page.evaluate(isOpen)));
      await page.press("?");
      await page.shows("Keyboard shortcuts");
      findings.push(...(await lookAt(page, "shortcuts", look)));
    }
    assert.deepEqual(findings, []);
  });
});

describe("the page of a new app", { skip: withoutBrowser }, () => {
  test("says what is wrong before and after it asks the platform, and creates the app with its settings and variables", async (t) => {
    const git = await startGitServer(t);
    await git.createRepo("acme", "examples", { "main.py": "" }, "main");
    await git.push("acme", "examples", { "main.py": "" }, "x'\"><img/src=x");
    const gitHosts = { defaultUrl: git.urlTemplate, otherUrls: [] };
    const stage = await openStage(t, { settings: { gitHosts } });
    const { api, open, project } = stage;
    const page = await open(`${project}/new?branch=dev`);
    await useToken(page, api.token);
    await page.type("Repository", "acme/none");
    await page.shows(
      `gitRepo cannot be read: acme/none on ${git.host} does not exist, or it is private`,
    );
    await page.type(
      "Repository",
      `http://${git.host}/acme/examples/tree/main/apps/Image_Resize?tab=readme`,
    );
    await page.shows("Found: 2 branches; the default one is main.");
    const offered =
      "[...document.getElementById('setting-gitBranch').list.options].map(({ value }) => value)";
    assert.deepEqual(await page.evaluate(offered), ["main", "x'\"><img/src=x"]);
    const valueOf = (name: string): Promise<string> =>
      page.evaluate(`document.getElementById("setting-${name}").value`);
    assert.deepEqual(await Promise.all(["gitRepo", "gitBranch", "gitPath", "name"].map(valueOf)), [
      `http://${git.host}/acme/examples`,
      "main",
      "apps/Image_Resize",
      "image-resize",
    ]);
    await page.type("cpu", "500");
    await page.type("minReplicaCount", "3");
    await page.click("Create and deploy");
    await page.shows("cpu must be a number from 0.25 to 192.");
    assert.equal(await page.evaluate("document.activeElement.id"), "setting-cpu");
    await page.type("cpu", "0.5");
    await page.type("maxReplicaCount", "2");
    await page.click("Create and deploy");
    await page.shows("minReplicaCount is 3, but must not be above maxReplicaCount, which is 2.");
    assert.equal(await page.evaluate("document.activeElement.id"), "setting-minReplicaCount");
    await page.type("minReplicaCount", "0");
    await page.click("Settings from a TOML file");
    await page.type(
      "TOML file",
      `[cerebrium.hardware]\ncpu = 4\nmemory = 1\n[cerebrium.scaling]\ncooldown = -1\n["<img src=x onerror='window.hacked=1'>"]\n`,
    );
    await page.shows("overridden above");
    await page.shows("cooldownPeriodSeconds must be a number from 0 to 3600.");
    await page.click("Create and deploy");
    await page.shows("scaling.cooldown in config_toml is -1, but must be a number from 0 to 3600.");
    await page.type("TOML file", "[cerebrium.hardware]\nmemory = 1\n");
    await page.evaluate(`(() => {
      const data = new DataTransfer();
      data.setData("text", "# keys\\nAPI_TOKEN='not for every eye'\\nMODE=fast");
      const [field] = document.querySelectorAll(".variable input");
      field.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
    })()`);
    await page.click("Create and deploy");
    await page.shows("Build #1");
    assert.equal((await page.text()).includes("not for every eye"), false);
    const path = `/v2/projects/${api.projectId}/apps/image-resize`;
    const { settings } = (await api.call("GET", path)).body;
    assert.deepEqual(
      ["cpu", "memory", "maxReplicaCount", "gitPath"].map((name) => [
        settings[name].value,
        settings[name].origin,
      ]),
      [
        [0.5, "api"],
        [1, "config_toml"],
        [2, "api"],
        ["apps/Image_Resize", "api"],
      ],
    );
    assert.deepEqual((await api.call("GET", `${path}/secrets`)).body, {
      API_TOKEN: "not for every eye",
      MODE: "fast",
    });
    assert.equal(await page.evaluate("window.hacked"), undefined);
  });

  test("offers repositories and folders, and shows what the settings file there sets and a build would refuse", async (t) => {
    const git = await startGitServer(t);
    const tomlOf = (table: string, text: string): string => `[cerebrium.${table}]\n${text}\n`;
    await git.createRepo("acme", "examples", {
      "cerebrium.toml": tomlOf("hardware", "cpu = 500"),
      "api/slipway.toml": `${tomlOf("deployment", 'name = "from-file"')}${tomlOf("hardware", "cpu = 2")}${tomlOf("scaling", "max_replicas = 3")}${tomlOf("oops", "")}`,
      "<img src=x onerror='window.hacked=1'>/slipway.toml": tomlOf(
        "hardware",
        `provider = "${"<b>".repeat(60)}"`,
      ),
      "docs/Dockerfile": "FROM debian\n",
    });
    const gitHosts = { defaultUrl: git.urlTemplate, otherUrls: [] };
    const stage = await openStage(t, { settings: { gitHosts } });
    const { api, open, project } = stage;
    const made = { name: "first-app", gitRepo: "acme/examples" };
    assert.equal(
      (await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body: made })).status,
      201,
    );
    const page = await open(`${project}/new`);
    await useToken(page, api.token);
    await page.shows("set a token for the host under Credentials.");
    const offered = (field: string): Promise<string[]> =>
      page.evaluate(
        `[...document.getElementById("setting-${field}").list.options].map(({ value }) => value)`,
      );
    assert.deepEqual(await offered("gitRepo"), ["acme/examples"]);
    await page.type("Repository", "acme/examples");
    await page.shows("1 setting, a build would refuse it");
    await page.shows(
      "hardware.cpu in cerebrium.toml is 500, but must be a number from 0.25 to 192.",
    );
    await page.type("cpu", "4");
    await page.shows("overridden on this page");
    await page.type("cpu", "");
    assert.deepEqual(await offered("gitPath"), ["<img src=x onerror='window.hacked=1'>", "api"]);
    await page.type("Folder in the repository", "docs");
    await page.shows("No settings file here");
    await page.shows(
      "There is a Dockerfile: to have the app built from it, set dockerfilePath to Dockerfile below",
    );
    await page.type("Folder in the repository", "nowhere");
    await page.shows(
      `gitPath is "nowhere", but acme/examples has no such folder on main. Folders with a settings file: `,
    );
    await page.type("Folder in the repository", "<img src=x onerror='window.hacked=1'>");
    await page.shows("but must be one of aws, local.");
    await page.type("Folder in the repository", "api");
    await page.shows("This folder has a slipway.toml.");
    await page.shows("oops");
    const placeholder = (field: string): Promise<string> =>
      page.evaluate(`document.getElementById("setting-${field}").placeholder`);
    assert.deepEqual(await Promise.all(["cpu", "maxReplicaCount", "memory"].map(placeholder)), [
      "slipway.toml: 2",
      "slipway.toml: 3",
      "default: 4",
    ]);
    await page.shows("the name has to be set on this page");
    assert.equal(await placeholder("name"), "my-app");
    assert.deepEqual(await axeFindings(page), []);
    await takePicture(page, "new-app-file-light");
    await page.click("Create and deploy");
    await page.shows("Build #1");
    assert.equal(await page.evaluate("window.hacked"), undefined);
  });

  test("is whole with all settings open, and says to others why they may not", async (t) => {
    const { api, open, project } = await openStage(t);
    const findings: string[] = [];
    for (const [look, size] of Object.entries(looks)) {
      const page = await open(`${project}/new?repo=${encodeURIComponent(hostileName)}`, size);
      await useToken(page, api.token);
      await page.shows("Without a repository");
      findings.push(...(await lookAt(page, "new-app", look)));
      await page.click("Settings from a TOML file");
      await page.type(
        "TOML file",
        `[cerebrium.deployment]\nname = "${"x".repeat(200)}"\n"<b>" = 1\n`,
      );
      await page.evaluate(
        "for (const one of document.querySelectorAll('details')) one.open = true",
      );
      await page.click("Create and deploy");
      await page.shows("Unknown and without effect");
      findings.push(...(await lookAt(page, "new-app-all", look)));
      await page.evaluate("document.querySelector('#setting-config_toml').scrollIntoView()");
      await takePicture(page, `new-app-toml-${look}`);
    }
    assert.deepEqual(findings, []);
    const page = await open(`${project}/new`);
    await useToken(page, await api.issue({ kind: "service_account", role: "billing" }));
    await page.shows("Your role does not allow you to create apps.");
  });
});

/** The management API on a listener that can be closed and opened again on the same port. */
async function startPausable(
  t: TestContext,
): Promise<{ api: ApiUnderTest; pause(): Promise<void>; resume(): Promise<void> }> {
  let server = createServer();
  let port = 0;
  let resume = (): Promise<void> => Promise.resolve();
  const pause = async (): Promise<void> => {
    if (!server.listening) return;
    server.close();
    server.closeAllConnections();
    await once(server, "close");
  };
  const api = await startManagementApi(t, {
    listen: async (_context, instance) => {
      resume = async () => {
        server = createServer({ optimizeEmptyRequests: true }, (request, response) =>
          instance.routing(request, response),
        );
        server.listen(port, "127.0.0.1");
        await once(server, "listening");
        ({ port } = server.address() as AddressInfo);
      };
      await resume();
      t.after(async () => {
        await instance.close();
        await pause();
      });
      return `http://127.0.0.1:${port}`;
    },
  });
  return { api, pause, resume: () => resume() };
}

const lost = "The connection to the platform is lost.";

describe("a page that is open for long", { skip: withoutBrowser }, () => {
  test("says that the platform does not answer, goes on with logs and lists when it does, and returns after a sign-in", async (t) => {
    const { api, pause, resume } = await startPausable(t);
    const person = { email: "ada@example.org", password: "correct horse battery" };
    const ownerId = await makePerson(api.db, { ...person, name: "Ada" });
    const projectId = await createProject(api.db, { name: "Ada's", ownerId, by: testBy });
    const token = await api.issue({ kind: "service_account", projectId });
    const body = { name: "some-app", gitRepo: "a/b" };
    const made = await api.call("POST", `/v2/projects/${projectId}/apps/git`, { token, body });
    const { appId } = made.body;
    const app = `/dashboard/projects/${projectId}/apps/${appId}`;
    const print = (text: string): Promise<void> =>
      api.appLogs.append([
        {
          projectId,
          appId,
          replicaId: "some-app-one" as ReplicaId,
          runId: null,
          stream: "stdout",
          at: Date.now(),
          text,
        },
      ]);
    const open = await openPages(t, api.baseUrl);
    const page = await open(`${app}/logs?stream=stdout`);
    await signInOn(page, person);
    await page.shows("No line fits; new ones appear here.");
    // The page says so before it follows; what is printed in between is not shown.
    await until("the log is followed", async () => {
      await print("before it was lost");
      return (await page.text()).includes("before it was lost");
    });
    await pause();
    await page.shows(lost);
    await page.shows("before it was lost");
    await takePicture(page, "lost-light");
    assert.deepEqual(await axeFindings(page), []);
    await print("meanwhile");
    await resume();
    await page.shows("meanwhile");
    await until("the mark is gone", async () => !(await page.text()).includes(lost));
    await print("afterwards");
    await page.shows("afterwards");

    await page.goTo(`${api.baseUrl}/dashboard/projects/${projectId}/audit?outcome=success`);
    const rows = "[...document.querySelectorAll('tbody tr')].map((row) => row.textContent).join()";
    const lists = (action: string): Promise<unknown> =>
      until(`${action} is listed`, async () => (await page.evaluate(rows)).includes(action));
    await lists("app.create");
    const set = await api.call("PATCH", `/v2/projects/${projectId}/secrets`, {
      token,
      body: { A: "b" },
    });
    assert.equal(set.status, 200, JSON.stringify(set.body));
    await pause();
    // As when somebody comes back to the tab.
    await until("the mark is there", async () => {
      await page.evaluate("dispatchEvent(new Event('visibilitychange'))");
      return (await page.text()).includes(lost);
    });
    await resume();
    await lists("secrets.update");

    await page.goTo(`${api.baseUrl}${app}/settings?search=cpu`);
    await page.shows("CPU cores of a replica");
    const { accessToken } = (
      await api.call("POST", "/v2/auth/sign-in", { token: null, body: person })
    ).body;
    const sessions = (await api.call("GET", "/v2/auth/sessions", { token: accessToken }))
      .body as Json[];
    const [other] = sessions.filter(({ isCurrent }) => !isCurrent);
    const ended = await api.call("DELETE", `/v2/auth/sessions/${other.id}`, { token: accessToken });
    assert.equal(ended.status, 200, JSON.stringify(ended.body));
    await page.shows("Password");
    await signInOn(page, person);
    await page.shows("CPU cores of a replica");
    await isAt(page, `${app}/settings?search=cpu`);
  });
});
