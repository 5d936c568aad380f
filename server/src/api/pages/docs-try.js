// Tries an operation from the API reference: sends what the reader has filled in, with the token that was pasted, and shows
// the answer as text. No cookie goes with it.
import { group, make } from "./elements.js";

/** Of a live stream, as much as this is shown. */
const charactersMax = 100_000;
const waitMs = 20_000;

let made = 0;

/** A folded form for the operation's parameters and its body. */
export function tryForm({ method, path, spec }, tokenOf) {
  const inputs = spec.parameters.map((one) => ({
    ...one,
    ...field(one.in === "path" ? one.name : `${one.name} (optional)`, "input"),
  }));
  const [type, content] = Object.entries(spec.requestBody?.content ?? {})[0] ?? [];
  const body =
    type === undefined ? null : field(`Body as ${type === "*/*" ? "text" : type}`, "textarea");
  if (content?.example !== undefined) body.input.value = JSON.stringify(content.example, null, 2);
  const send = make("button", "Send", { type: "submit", class: "primary" });
  const answer = make("div", "", { role: "status" });
  const rows = [...inputs, ...(body === null ? [] : [body])].map(({ row }) => row);
  const form = group("form", [...rows, send, answer], { class: "form" });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    answer.textContent = "Sending …";
    const given = inputs.filter((one) => one.in === "header" && one.input.value.trim() !== "");
    const headers = {
      ...Object.fromEntries(given.map((one) => [one.name, one.input.value.trim()])),
      ...(type === undefined || type === "*/*" ? {} : { "content-type": type }),
    };
    if (tokenOf() !== "") headers.authorization = `Bearer ${tokenOf()}`;
    const request = {
      method: method.toUpperCase(),
      headers,
      ...(body === null ? {} : { body: body.input.value }),
    };
    answer.replaceChildren(...(await shown(addressOf(path, inputs), request)));
  });
  return group("details", [make("summary", "Try it"), form], { class: "try" });
}

function field(label, kind) {
  const id = `try-${++made}`;
  const input = make(kind, "", { id, autocomplete: "off", spellcheck: "false" });
  return {
    input,
    row: group("div", [make("label", label, { for: id }), input], { class: "field" }),
  };
}

function addressOf(path, inputs) {
  const value = (name, where) =>
    inputs.find((one) => one.name === name && one.in === where).input.value.trim();
  const way = path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(value(name, "path")));
  const query = inputs.filter((one) => one.in === "query" && one.input.value.trim() !== "");
  const pairs = new URLSearchParams(query.map((one) => [one.name, one.input.value.trim()]));
  return pairs.size === 0 ? way : `${way}?${pairs}`;
}

async function shown(address, request) {
  try {
    const signal = AbortSignal.timeout(waitMs);
    const options = {
      ...request,
      credentials: "omit",
      redirect: "manual",
      cache: "no-store",
      signal,
    };
    const answer = await fetch(address, options);
    if (answer.type === "opaqueredirect")
      return [make("p", "The answer is a redirect, which is not followed here.")];
    const headers = [...answer.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
    return [
      make("p", `${request.method} ${address}`, { class: "path" }),
      make("p", `Status ${answer.status} ${answer.statusText}`, {
        class: "state",
        "data-kind": answer.ok ? "good" : "bad",
      }),
      group("details", [make("summary", "Headers"), make("pre", headers, { class: "log" })]),
      make("pre", await textOf(answer), { class: "log", tabindex: "0" }),
    ];
  } catch (error) {
    return [make("p", `The call failed: ${error.message}`, { class: "error" })];
  }
}

/** The body as text, JSON indented; of a stream what comes within the time. */
async function textOf(answer) {
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (
      let part = await reader?.read();
      part?.done === false && text.length < charactersMax;
      part = await reader.read()
    ) {
      text += part.value;
    }
  } catch {
    return `${text}\n… (cut off here after ${waitMs / 1000} seconds)`;
  }
  void reader?.cancel().catch(() => undefined);
  if (text.length >= charactersMax) return `${text.slice(0, charactersMax)}\n… (cut off here)`;
  const isJson = answer.headers.get("content-type")?.startsWith("application/json") === true;
  return isJson ? JSON.stringify(JSON.parse(text), null, 2) : text;
}
