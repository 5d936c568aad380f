// The pages: projects and apps, one app, one build with its live log. Each view asks the API and shows the answer; all
// text from there is set as text, never as HTML.
import { ApiError, follow, get, storeToken, storedToken } from "./dashboard-api.js";

const view = document.getElementById("view");
const notice = document.getElementById("notice");
const signIn = document.getElementById("sign-in");
const signOut = document.getElementById("sign-out");
const linesMost = 5000;
const refreshMs = 3000;

let leaving = new AbortController();

const pages = [
  [/^\/dashboard\/?$/, showHome],
  [/^\/dashboard\/projects\/([^/]+)\/?$/, showProject],
  [/^\/dashboard\/projects\/([^/]+)\/apps\/([^/]+)\/?$/, showApp],
  [/^\/dashboard\/projects\/([^/]+)\/apps\/([^/]+)\/builds\/([^/]+)\/?$/, showBuild],
];

async function open() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  view.replaceChildren();
  notice.textContent = "";
  signOut.hidden = storedToken() === null;
  signIn.hidden = storedToken() !== null;
  if (storedToken() === null) return showTrail([]);
  const path = location.pathname;
  const [form, show] = pages.find(([candidate]) => candidate.test(path)) ?? [/$/, showNothing];
  const parts = (form.exec(path) ?? []).slice(1).map(decodeURIComponent);
  try {
    await show(signal, ...parts);
  } catch (error) {
    if (!signal.aborted) explain(error);
  }
}

function explain(error) {
  if (error instanceof ApiError && error.status === 401) {
    storeToken(null);
    void open();
    document.getElementById("sign-in-error").textContent = error.message;
    return;
  }
  notice.textContent = error instanceof ApiError ? error.message : "The platform cannot be reached.";
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
    const rows = apps.map((app) => [link(appPath(project, app.id), app.name), state(app.status), time(app.updatedAt)]);
    const content = rows.length === 0 ? make("p", "No apps yet.") : table("Apps", ["App", "State", "Changed"], rows);
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
      containers.length === 0 ? make("p", "None is running.") : replicas(containers),
      make("h2", "Last output"),
      logs.logs.length === 0 ? make("p", "Nothing was printed yet.") : output(logs.logs.toReversed()),
    );
  });
}

function factsOf(detail) {
  return [
    ["State", state(detail.status)],
    ...(detail.waitReason === null ? [] : [["Calls wait", detail.waitReason]]),
    ["Endpoint", detail.internalEndpoint],
    [
      "Repository",
      `${detail.gitRepo}, branch ${detail.gitBranch}${detail.gitPath === "" ? "" : `, folder ${detail.gitPath}`}`,
    ],
    ["Hardware", `${detail.hardware}, ${detail.cpu} cores, ${detail.memory} GB, ${detail.gpuCount} GPUs`],
    ["Replicas", `${detail.minReplicaCount} to ${detail.maxReplicaCount}, ${detail.replicaConcurrency} calls each`],
    ["Callers", detail.disableAuth ? "anybody" : "with a token"],
  ];
}

function buildRow(project, app, build) {
  const path = `${appPath(project, app)}/builds/${encodeURIComponent(build.id)}`;
  return [link(path, `#${build.number}`), state(build.status), build.cause, time(build.createdAt), build.reason ?? ""];
}

function replicas(containers) {
  const rows = containers.map((one) => [one.containerId, state(one.containerState), time(one.timestamp)]);
  return table("Replicas", ["Replica", "State", "Created"], rows);
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
  view.replaceChildren(make("h1", "There is nothing here"), link("/dashboard", "To the start"));
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

function showTrail(steps) {
  const items = steps.map(([text, path]) => {
    const item = make("li");
    item.append(link(path, text));
    return item;
  });
  document.getElementById("trail").replaceChildren(...items);
  document.title = [...steps.map(([text]) => text).toReversed(), "Slipway"].join(" – ");
}

function make(name, text = "", attributes = {}) {
  const element = document.createElement(name);
  element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function link(path, text) {
  return make("a", text, { href: path, "data-link": "" });
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

function time(text) {
  return make("time", new Date(text).toLocaleString(), { datetime: text });
}

function facts(entries) {
  const list = make("dl");
  for (const [name, value] of entries) {
    const description = make("dd");
    description.append(value);
    list.append(make("dt", name), description);
  }
  return list;
}

function table(caption, heads, rows) {
  const box = make("div", "", { class: "scroll" });
  const element = make("table", "", { "aria-label": caption });
  element.append(make("thead"), make("tbody"));
  const headRow = make("tr");
  headRow.append(...heads.map((head) => make("th", head, { scope: "col" })));
  element.tHead.append(headRow);
  for (const row of rows) {
    const line = make("tr");
    for (const value of row) {
      const cell = make("td");
      cell.append(value);
      line.append(cell);
    }
    element.tBodies[0].append(line);
  }
  box.append(element);
  return box;
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
  history.pushState(null, "", target.getAttribute("href"));
  document.getElementById("content").focus();
  void open();
});

signIn.addEventListener("submit", (event) => {
  event.preventDefault();
  const input = document.getElementById("token");
  storeToken(input.value.trim());
  input.value = "";
  document.getElementById("sign-in-error").textContent = "";
  void open();
});

signOut.addEventListener("click", () => {
  storeToken(null);
  void open();
});

addEventListener("popstate", () => void open());
void open();
