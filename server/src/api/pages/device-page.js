// Approving a device: what shows a code wants to be signed in as whoever looks at this page.
import { ApiError, get, send } from "./dashboard-api.js";
import { action, form } from "./forms.js";
import { facts, group, heading, make, time } from "./elements.js";
import { endSession } from "./session.js";

/** Asks for the code, unless the link had it, shows what asks, and lets the person decide. `again` opens the page anew. */
export async function showDevice(view, { signal, again }) {
  const code = new URLSearchParams(location.search).get("code") ?? "";
  const { person } = await get("/v2/auth/session", signal);
  if (code === "") return showCodeForm(view, { person, again });
  try {
    showRequest(view, { person, again, login: await loginOf(code, signal) });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status === 401) throw error;
    showCodeForm(view, { person, again, problem: error.message });
  }
}

function loginOf(code, signal) {
  return get(`/v2/auth/device-logins/${encodeURIComponent(code)}`, signal);
}

function showCodeForm(view, { person, again, problem = "" }) {
  const element = form({
    label: "Code",
    submit: "Continue",
    before: [make("p", problem, { class: "error", role: "alert" })],
    fields: [
      {
        name: "code",
        label: "Code shown by your command line",
        hint: "Eight letters, such as BCDF-GHJK.",
        autocomplete: "off",
        autocapitalize: "characters",
        spellcheck: "false",
        required: "",
      },
    ],
    async onSubmit({ code }) {
      showRequest(view, { person, again, login: await loginOf(code) });
    },
  });
  const content = [heading("Sign in a device"), element, whoIs(person, again)];
  view.replaceChildren(group("div", content, { class: "narrow" }));
}

function showRequest(view, { person, again, login }) {
  if (login.state !== "waiting") return showEnd(view, login.state);
  const decide = (decision) => async () => {
    const path = `/v2/auth/device-logins/${encodeURIComponent(login.userCode)}`;
    showEnd(view, (await send("POST", path, { decision })).state);
  };
  const warning =
    "Approve it only if you have just started this sign-in yourself and the codes match. Approving a stranger's code lets the stranger in.";
  const content = [
    heading("Sign in this device?"),
    make("p", login.userCode, { class: "code", "aria-label": `The code ${login.userCode.split("").join(" ")}` }),
    facts([
      ["Client (self-reported)", login.client === "" ? "unknown" : login.client],
      ["Address", login.address ?? "unknown"],
      ["Since", time(login.createdAt)],
    ]),
    make("p", warning),
    group(
      "div",
      [
        action({ text: "Approve", onClick: decide("approve"), isPrimary: true }),
        action({ text: "Deny", onClick: decide("deny") }),
      ],
      { class: "choices" },
    ),
    whoIs(person, again),
  ];
  view.replaceChildren(group("div", content, { class: "narrow" }));
}

function showEnd(view, state) {
  const content =
    state === "approved"
      ? [heading("The device is signed in"), make("p", "Go back to your command line. You can close this page.")]
      : [heading("The device was denied"), make("p", "It was not signed in. You can close this page.")];
  view.replaceChildren(group("div", content, { class: "narrow" }));
}

function whoIs(person, again) {
  return group(
    "div",
    [
      make("p", `You are signed in as ${person.email}.`, { class: "muted" }),
      action({
        text: "Sign in as someone else",
        async onClick() {
          await endSession();
          again();
        },
      }),
    ],
    { class: "who" },
  );
}
