// The pages of the dashboard: which one the address names, and projects, apps and builds. Each view asks the API and shows
// the answer; all text from there is set as text, never as HTML.
import { showAccount } from "./account-page.js";
import { ApiError, follow, get } from "./dashboard-api.js";
import { showDevice } from "./device-page.js";
import { facts, link, make, table, time } from "./elements.js";
import { messageOf } from "./forms.js";
import { showInvitation } from "./invitation-page.js";
import { showForgot, showReset } from "./password-page.js";
import { bearer, endSession, forgetAccess, storedToken, storeToken } from "./session.js";
import { showSignIn } from "./sign-in.js";

const view = document.getElementById("view");
const notice = document.getElementById("notice");
const signOut = document.getElementById("sign-out");
const account = document.getElementById("account");
const linesMost = 5000;
const refreshMs = 3000;

let leaving = new AbortController();

/** `open`: for whoever has the link; `person`: not for tokens. */
const pages = [
  { form: /^\/dashboard\/?$/, show: showHome },
  { form: /^\/dashboard\/projects\/([^/]+)\/?$/, show: showProject },
  { form: /^\/dashboard\/projects\/([^/]+)\/apps\/([^/]+)\/?$/, show: showApp },
  { form: /^\/dashboard\/projects\/([^/]+)\/apps\/([^/]+)\/builds\/([^/]+)\/?$/, show: showBuild },
  { form: /^\/dashboard\/account\/?$/, show: showAccountPage, isFor: "person", title: "Your account" },
  { form: /^\/dashboard\/device\/?$/, show: showDevicePage, isFor: "person", title: "Sign in a device" },
  { form: /^\/dashboard\/invitations\/([^/]+)\/?$/, show: showInvitationPage, isFor: "all", title: "Invitation" },
  {
    form: /^\/dashboard\/forgot-password\/?$/,
    show: () => showForgot(view),
    isFor: "all",
    title: "Forgot your password?",
  },
  { form: /^\/dashboard\/reset-password\/([^/]+)\/?$/, show: showResetPage, isFor: "all", title: "New password" },
];

async function open(reason = "") {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  view.replaceChildren();
  notice.textContent = "";
  signOut.hidden = true;
  account.hidden = true;
  const path = location.pathname;
  const page = pages.find(({ form }) => form.test(path)) ?? { form: /$/, show: showNothing };
  const parts = (page.form.exec(path) ?? []).slice(1).map(decodeURIComponent);
  showTrail([], page.title);
  try {
    const isOpen = page.isFor === "all";
    const isSignedIn = !isOpen && (await bearer()) !== null;
    if (signal.aborted) return;
    signOut.hidden = !isSignedIn;
    account.hidden = !isSignedIn || storedToken() !== null;
    if (!isOpen && !maySee(page, isSignedIn)) return showSignInFor(page, reason);
    await page.show(signal, ...parts);
  } catch (error) {
    if (!signal.aborted) explain(error);
  }
}

function maySee(page, isSignedIn) {
  return isSignedIn && (page.isFor !== "person" || storedToken() === null);
}

function showSignInFor(page, reason) {
  showTrail([], "Sign in");
  showSignIn(view, { done: () => void open(), reason, isForPeople: page.isFor === "person" });
}

function explain(error) {
  if (error instanceof ApiError && error.status === 401) {
    storeToken(null);
    forgetAccess();
    void open(error.message);
    return;
  }
  notice.textContent = messageOf(error);
}

function go(path) {
  history.pushState(null, "", path);
  document.getElementById("content").focus();
  void open();
}

async function showAccountPage(signal) {
  await showAccount(view, { signal, again: () => void open() });
}

async function showDevicePage(signal) {
  await showDevice(view, { signal, again: () => void open() });
}

async function showInvitationPage(_signal, secret) {
  await showInvitation(view, { secret, go, again: () => void open() });
}

function showResetPage(_signal, secret) {
  showReset(view, { secret });
}

async function showHome(signal) {
  showTrail([]);
  const projects = await get("/v2/projects", signal);
  if (projects.length === 1) return await showProject(signal, projects[0].id);
  const list = projects.map(({ id, name }) => [link(projectPath(id), name), id]);
  view.replaceChildren(make("h1", "Projects"), table("Projects", ["Name", "Id"], list));
}

async function showProject(signal, project) {
  showTrail([[project, projectPath(project)]]);
  const load = () => get(`/v2/projects/${encodeURIComponent(project)}/apps`, signal);
  await keepShowing(signal, load, (apps) => {
    const rows = apps.map((app) => [
      link(appPath(project, app.id), app.name),
      state(app.status),
      time(app.updatedAt),
      [app.waitReason, pauseOf(app)].filter((note) => note !== null).join(" "),
    ]);
    const heads = ["App", "State", "Changed", "Note"];
    const content = rows.length === 0 ? make("p", "No apps yet.") : table("Apps", heads, rows);
    view.replaceChildren(make("h1", "Apps"), content);
  });
}

async function showApp(signal, project, app) {
  showTrail([
    [project, projectPath(project)],
    [app, appPath(project, app)],
  ]);
  const base = apiPath(project, app);
  const paths = [base, `${base}/builds`, `${base}/containers`, `${base}/logs?direction=backward&pageSize=100`];
  const load = () => Promise.all(paths.map((path) => get(path, signal)));
  await keepShowing(signal, load, ([detail, builds, containers, logs]) => {
    view.replaceChildren(
      make("h1", detail.name),
      facts(factsOf(detail)),
      make("h2", "Builds"),
      table(
        "Builds",
        ["Build", "Status", "Started by", "Created", "Reason"],
        builds.map((build) => buildRow(project, app, build)),
      ),
      make("h2", "Replicas"),
      containers.length === 0 ? make("p", "No replicas are running.") : replicas(containers),
      make("h2", "Last output"),
      logs.logs.length === 0 ? make("p", "Nothing printed yet.") : output(logs.logs.toReversed()),
    );
  });
}

function pauseOf({ autoDeployPausedReason: reason }) {
  return reason === null ? null : `Automatic deploys are paused. ${reason}`;
}

function factsOf(detail) {
  const pause = pauseOf(detail);
  return [
    ["State", state(detail.status)],
    ...(detail.liveRelease === null ? [] : [["Release", `v${detail.liveRelease}`]]),
    ...(pause === null ? [] : [["Deploys", pause]]),
    ...(detail.waitReason === null ? [] : [["Waiting", detail.waitReason]]),
    ["Endpoint", detail.internalEndpoint],
    [
      "Repository",
      `${detail.gitRepo}, branch ${detail.gitBranch}${detail.gitPath === "" ? "" : `, folder ${detail.gitPath}`}`,
    ],
    ["Hardware", `${detail.hardware}, ${detail.cpu} cores, ${detail.memory} GB, ${detail.gpuCount} GPUs`],
    ["Replicas", `${detail.minReplicaCount} to ${detail.maxReplicaCount}, ${detail.replicaConcurrency} calls each`],
    ["Callers", detail.disableAuth ? "anyone" : "with a token"],
  ];
}

function buildRow(project, app, build) {
  const path = `${appPath(project, app)}/builds/${encodeURIComponent(build.id)}`;
  return [link(path, `#${build.number}`), state(build.status), build.cause, time(build.createdAt), build.reason ?? ""];
}

function replicas(containers) {
  const hasGpus = containers.some(({ usage }) => (usage?.gpuMemoryBytes ?? null) !== null);
  const rows = containers.map((one) => [
    ...[one.containerId, state(one.containerState), time(one.timestamp)],
    ...(one.usage === null ? [] : usageOf(one.usage, hasGpus)),
  ]);
  const heads = ["Replica", "State", "Created", "CPU", "Memory", "Received", "Sent"];
  return table("Replicas", hasGpus ? [...heads, "GPU", "GPU memory"] : heads, rows);
}

function usageOf(usage, hasGpus) {
  const { cpuCores, memoryBytes, networkReceivedBytes, networkSentBytes, gpuUtilization, gpuMemoryBytes } = usage;
  const cells = [
    cpuCores === null ? "" : `${cpuCores.toFixed(2)} cores`,
    ...[memoryBytes, networkReceivedBytes, networkSentBytes].map(sizeText),
  ];
  if (!hasGpus) return cells;
  return [...cells, gpuUtilization === null ? "" : `${Math.round(gpuUtilization * 100)} %`, sizeText(gpuMemoryBytes)];
}

function sizeText(bytes) {
  if (bytes === null) return "";
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
}

function output(lines) {
  const log = make("div", "", { class: "log", role: "region", "aria-label": "Last output", tabindex: "0" });
  log.append(...lines.map((line) => make("div", line.logLine, { class: line.stream })));
  return log;
}

async function showBuild(signal, project, app, build) {
  showTrail([
    [project, projectPath(project)],
    [app, appPath(project, app)],
    ["Build", location.pathname],
  ]);
  const base = `${apiPath(project, app)}/builds/${encodeURIComponent(build)}`;
  const detail = await get(base, signal);
  const status = make("p", "", { role: "status" });
  const log = make("div", "", {
    class: "log",
    role: "log",
    "aria-label": "Build log",
    "aria-live": "off",
    tabindex: "0",
  });
  view.replaceChildren(make("h1", `Build #${detail.number}`), status, log);
  const showStatus = ({ status: name, reason }) => status.replaceChildren(state(name), reason ? ` ${reason}` : "");
  showStatus(detail);
  const polling = keepShowing(
    signal,
    () => get(base, signal),
    (now) => {
      showStatus(now);
      return now.endedAt !== null;
    },
  );
  // Whoever waits for it last hears of its failure; until then it is not unheard.
  polling.catch(() => undefined);
  await follow(`${base}/logs?follow=true`, {
    signal,
    onEvent({ event, data }) {
      const value = JSON.parse(data);
      if (event === "end") showStatus(value);
      else addLine(log, value);
    },
  });
  await polling;
}

function addLine(log, { log: text, stream }) {
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  log.append(make("div", text, { class: stream }));
  while (log.childElementCount > linesMost) log.firstElementChild.remove();
  if (isAtEnd) log.scrollTop = log.scrollHeight;
}

async function showNothing() {
  showTrail([]);
  view.replaceChildren(make("h1", "Page not found"), link("/dashboard", "Go to the dashboard"));
}

/** Loads now and every few seconds while the page is open and visible, and draws what is new; ends when `draw` returns true. */
async function keepShowing(signal, load, draw) {
  let shown = "";
  while (!signal.aborted) {
    if (!document.hidden) {
      const data = await load();
      const text = JSON.stringify(data, (name, value) => (name === "containerRunningTimeMs" ? undefined : value));
      if (text !== shown && redraw(() => draw(data)) === true) return;
      shown = text;
    }
    await new Promise((resolve) => {
      setTimeout(resolve, refreshMs);
      signal.addEventListener("abort", resolve, { once: true });
    });
  }
}

/** Draws, and puts the focus back on the link that had it. */
function redraw(draw) {
  const href = view.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const result = draw();
  if (href !== null) view.querySelector(`a[href="${CSS.escape(href)}"]`)?.focus();
  return result;
}

function showTrail(steps, title) {
  const items = steps.map(([text, path]) => {
    const item = make("li");
    item.append(link(path, text));
    return item;
  });
  document.getElementById("trail").replaceChildren(...items);
  const names = title === undefined ? steps.map(([text]) => text).toReversed() : [title];
  document.title = [...names, "Slipway"].join(" – ");
}

const kinds = [
  [/^(ACTIVE|RUNNING|success)$/, "good"],
  [/(FAILED|failure|timeout)/, "bad"],
  [/^(STOPPED|cancelled)$/, "muted"],
];

function state(name) {
  const kind = kinds.find(([form]) => form.test(name))?.[1] ?? "wait";
  return make("span", name, { class: "state", "data-kind": kind });
}

function projectPath(project) {
  return `/dashboard/projects/${encodeURIComponent(project)}`;
}

function appPath(project, app) {
  return `${projectPath(project)}/apps/${encodeURIComponent(app)}`;
}

function apiPath(project, app) {
  return `/v2/projects/${encodeURIComponent(project)}/apps/${encodeURIComponent(app)}`;
}

document.addEventListener("click", (event) => {
  const target = event.target instanceof Element ? event.target.closest("a[data-link]") : null;
  if (target === null || event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  go(target.getAttribute("href"));
});

signOut.addEventListener("click", () => {
  endSession()
    .then(() => open())
    .catch((error) => {
      notice.textContent = messageOf(error);
    });
});

addEventListener("popstate", () => void open());
void open();
