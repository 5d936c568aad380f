// Makes the elements that pages consist of. All text is set as text, never as HTML.

/** An element with a text and attributes. */
export function make(name, text = "", attributes = {}) {
  const element = document.createElement(name);
  element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

/** An element with these children. */
export function group(name, children, attributes = {}) {
  const element = make(name, "", attributes);
  element.append(...children);
  return element;
}

/** A link within the dashboard, which opens without loading the page anew. */
export function link(path, text) {
  return make("a", text, { href: path, "data-link": "" });
}

/** The heading of a view that took the place of another one; it gets the focus, so that it is read out. */
export function heading(text) {
  const element = make("h1", text, { tabindex: "-1" });
  queueMicrotask(() => element.focus());
  return element;
}

/** A time in the reader's own form. */
export function time(text) {
  return make("time", new Date(text).toLocaleString(), { datetime: text });
}

/** Names with what they stand for. */
export function facts(entries) {
  const list = make("dl");
  for (const [name, value] of entries) list.append(make("dt", name), group("dd", [value]));
  return list;
}

/** A table that scrolls by itself on a narrow screen. */
export function table(caption, heads, rows) {
  const element = make("table", "", { "aria-label": caption });
  element.append(make("thead"), make("tbody"));
  element.tHead.append(
    group(
      "tr",
      heads.map((head) => make("th", head, { scope: "col" })),
    ),
  );
  for (const row of rows) {
    element.tBodies[0].append(
      group(
        "tr",
        row.map((value) => group("td", [value])),
      ),
    );
  }
  return group("div", [element], { class: "scroll" });
}
