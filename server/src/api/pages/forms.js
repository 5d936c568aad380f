// Forms: each field with its label and its hint, a button that waits, and an error that is read out.
import { ApiError } from "./dashboard-api.js";
import { group, make } from "./elements.js";

let made = 0;

/**
 * A form. `fields`: `{name, label, hint?, ...attributes of the input}`; `onSubmit` gets their values by name, and whatever
 * it throws as ApiError is shown below the fields. `before` and `after`: elements around the fields and the button.
 */
export function form({ fields = [], submit, onSubmit, before = [], after = [], label }) {
  const inputs = fields.map(inputOf);
  const error = make("p", "", { class: "error", role: "alert" });
  const button = make("button", submit, { type: "submit", class: "primary" });
  const rows = inputs.map(({ row }) => row);
  const attributes = label === undefined ? {} : { "aria-label": label };
  const element = group("form", [...before, ...rows, error, button, ...after], { class: "form", ...attributes });
  element.addEventListener("submit", (event) => {
    event.preventDefault();
    void send({ inputs, button, error, onSubmit });
  });
  return element;
}

/** A button that does something, with its error below. */
export function action({ text, onClick, isPrimary = false }) {
  const error = make("p", "", { class: "error", role: "alert" });
  const button = make("button", text, { type: "button", ...(isPrimary ? { class: "primary" } : {}) });
  button.addEventListener("click", () => void send({ inputs: [], button, error, onSubmit: onClick }));
  return group("div", [button, error], { class: "action" });
}

async function send({ inputs, button, error, onSubmit }) {
  if (button.getAttribute("aria-disabled") === "true") return;
  error.textContent = "";
  // Not disabled: the focus would be lost with it.
  button.setAttribute("aria-disabled", "true");
  try {
    await onSubmit(Object.fromEntries(inputs.map(({ input }) => [input.name, input.value])));
  } catch (cause) {
    error.textContent = messageOf(cause);
    const open = inputs.map(({ input }) => input).filter((input) => !input.readOnly);
    // Most often it is the password that was mistyped.
    (open.find(({ type }) => type === "password") ?? open[0])?.focus();
  } finally {
    button.removeAttribute("aria-disabled");
  }
}

/** What to say of an error: the platform's own words, where it has answered. */
export function messageOf(error) {
  return error instanceof ApiError ? error.message : "The platform cannot be reached. Try again.";
}

function inputOf({ name, label, hint, value = "", ...attributes }) {
  const id = `field-${++made}`;
  const described = hint === undefined ? {} : { "aria-describedby": `${id}-hint` };
  const input = make("input", "", { id, name, ...described, ...attributes });
  input.value = value;
  const parts = [make("label", label, { for: id }), input];
  if (hint !== undefined) parts.push(make("p", hint, { id: `${id}-hint`, class: "muted hint" }));
  return { input, row: group("div", parts, { class: "field" }) };
}
