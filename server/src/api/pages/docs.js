// The API reference: every operation of /openapi.json by group, found by words, each with what it takes and answers. The
// details of an operation are made when it is opened.
import { group, make } from "./elements.js";
import { details, prose } from "./docs-operation.js";

const element = (id) => document.getElementById(id);

/** `{operation, node}` in the order of the document. */
const all = [];

async function start() {
  const answer = await fetch("/openapi.json");
  if (!answer.ok) throw new Error(`/openapi.json was answered ${answer.status}.`);
  const api = await answer.json();
  element("about").append(...api.info.description.split("\n\n").map((text) => prose(text)));
  const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, spec]) => ({
      method,
      path,
      spec,
      words: wordsOf(method, path, spec),
    })),
  );
  const sections = api.tags.map(({ name }) => {
    const own = operations.filter(({ spec }) => spec.tags.includes(name));
    const nodes = own.map((operation) => ({ operation, node: row(operation, api) }));
    all.push(...nodes);
    return group("section", [make("h2", name), ...nodes.map(({ node }) => node)], {
      class: "group",
    });
  });
  element("groups").append(...sections);
  element("search").addEventListener("input", search);
  element("tools").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", openNamed);
  search();
  openNamed();
}

/** All that an operation can be found by, in lower case. */
function wordsOf(method, path, spec) {
  const fields = Object.values(spec.requestBody?.content ?? {}).flatMap(({ schema }) =>
    Object.keys(schema.properties ?? {}),
  );
  const parameters = spec.parameters.map(({ name }) => name);
  return [method, path, spec.operationId, spec.description, ...parameters, ...fields]
    .join(" ")
    .toLowerCase();
}

function row(operation, api) {
  const { method, path, spec } = operation;
  const summary = group("summary", [
    make("span", method.toUpperCase(), { class: "method", "data-method": method }),
    make("span", path, { class: "path" }),
    make("span", spec.summary, { class: "about muted" }),
  ]);
  const node = group("details", [summary], { class: "operation", id: spec.operationId });
  node.addEventListener("toggle", () => {
    if (node.open && node.childElementCount === 1)
      node.append(details(operation, api, () => element("token").value.trim()));
  });
  return node;
}

/** Shows the operations that hold every word. */
function search() {
  const words = element("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const { operation, node } of all)
    node.hidden = !words.every((word) => operation.words.includes(word));
  for (const section of document.querySelectorAll(".group")) {
    section.hidden = section.querySelector(".operation:not([hidden])") === null;
  }
  const shown = all.filter(({ node }) => !node.hidden).length;
  element("count").textContent = `${shown} of ${all.length} operations`;
}

/** The operation that the address names. */
function openNamed() {
  const found = all.find(({ operation }) => `#${operation.spec.operationId}` === location.hash);
  if (found === undefined) return;
  found.node.open = true;
  found.node.scrollIntoView();
}

start().catch((error) => {
  element("notice").textContent = `The description of the API could not be read. ${error.message}`;
});
