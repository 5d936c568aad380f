// The person's own account: password, two-factor sign-in, and where they are signed in.
import { get, send } from "./dashboard-api.js";
import { action, form } from "./forms.js";
import { facts, group, heading, make, table, time } from "./elements.js";
import { signedIn } from "./session.js";

const passwordField = {
  name: "password",
  label: "Your password",
  hint: "Leave this empty if you have no password because you sign in with a provider.",
  type: "password",
  autocomplete: "current-password",
};
const codeField = {
  name: "code",
  label: "Authenticator code",
  hint: "Six digits, or one of your backup codes.",
  autocomplete: "one-time-code",
  autocapitalize: "none",
  spellcheck: "false",
  required: "",
};

/** Shows it; `again` opens the page anew after a change. */
export async function showAccount(view, { signal, again }) {
  const [{ person }, sessions] = await Promise.all([get("/v2/auth/session", signal), get("/v2/auth/sessions", signal)]);
  view.replaceChildren(
    heading("Your account"),
    facts([
      ["Name", person.name],
      ["Email", person.email],
    ]),
    make("h2", "Two-factor sign-in"),
    group("div", person.twoFactorEnabled ? whenOn(again) : whenOff(again), { class: "narrow" }),
    make("h2", "Password"),
    group("div", [passwordForm(again)], { class: "narrow" }),
    make("h2", "Active sessions"),
    sessionTable(sessions, again),
    ...(sessions.length > 1 ? [endOthers(again)] : []),
  );
}

function whenOff(again) {
  const begin = form({
    label: "Turn on two-factor sign-in",
    submit: "Turn on",
    before: [
      make(
        "p",
        "It is off. When it is on, you need a code from an authenticator app as well as your password to sign in.",
      ),
    ],
    fields: [passwordField],
    async onSubmit({ password }) {
      const enrolment = await send("POST", "/v2/auth/two-factor", withPassword({}, password));
      begin.replaceWith(confirmation(enrolment, again));
    },
  });
  return [begin];
}

function confirmation({ uri, backupCodes }, again) {
  const secret = new URL(uri).searchParams.get("secret") ?? "";
  const element = form({
    label: "Confirm with a code",
    submit: "Confirm",
    before: [
      make("p", "Add this key to your authenticator app:"),
      make("p", secret, { class: "key" }),
      group("p", [make("a", "Open in an app on this device", { href: uri })]),
      make("p", "Store these backup codes separately from the app. Each works once. They are not shown again:"),
      make("pre", backupCodes.join("\n"), { class: "key", tabindex: "0", "aria-label": "Backup codes" }),
    ],
    fields: [{ ...codeField, hint: "The six digits that the app shows now. This turns on two-factor sign-in." }],
    async onSubmit({ code }) {
      signedIn(await send("POST", "/v2/auth/two-factor/confirm", { code: code.trim() }));
      again();
    },
  });
  return element;
}

function offForm(again) {
  return form({
    label: "Turn off two-factor sign-in",
    submit: "Turn off",
    fields: [passwordField, codeField],
    async onSubmit({ code, password }) {
      signedIn(await send("POST", "/v2/auth/two-factor/disable", withPassword({ code: code.trim() }, password)));
      again();
    },
  });
}

function whenOn(again) {
  const renew = form({
    label: "New backup codes",
    submit: "Create new backup codes",
    fields: [passwordField, codeField],
    async onSubmit({ code, password }) {
      const body = withPassword({ code: code.trim() }, password);
      const { backupCodes } = await send("POST", "/v2/auth/two-factor/backup-codes", body);
      const codes = make("pre", backupCodes.join("\n"), { class: "key", tabindex: "0", "aria-label": "Backup codes" });
      renew.replaceWith(make("p", "These are your new backup codes. The old ones no longer work:"), codes);
      codes.focus();
    },
  });
  return [
    make("p", "It is on: you need a code from your authenticator app to sign in."),
    group("details", [make("summary", "Create new backup codes"), renew]),
    group("details", [make("summary", "Turn it off"), offForm(again)]),
  ];
}

function passwordForm(again) {
  return form({
    label: "Change password",
    submit: "Change password",
    fields: [
      {
        name: "currentPassword",
        label: "Current password",
        type: "password",
        autocomplete: "current-password",
        required: "",
      },
      {
        name: "newPassword",
        label: "New password",
        hint: "At least 10 characters. Changing it ends all your other sessions.",
        type: "password",
        autocomplete: "new-password",
        minlength: 10,
        required: "",
      },
    ],
    async onSubmit(values) {
      await send("POST", "/v2/auth/password", values);
      again();
    },
  });
}

function sessionTable(sessions, again) {
  const rows = sessions.map((one) => [
    one.userAgent ?? "unknown",
    one.address ?? "unknown",
    time(one.lastUsedAt),
    one.isCurrent ? "this session" : endButton(one, again),
  ]);
  return table("Active sessions", ["With", "From", "Last used", ""], rows);
}

function endButton({ id }, again) {
  return action({
    text: "End",
    async onClick() {
      await send("DELETE", `/v2/auth/sessions/${encodeURIComponent(id)}`);
      again();
    },
  });
}

function endOthers(again) {
  return action({
    text: "End all other sessions",
    async onClick() {
      await send("DELETE", "/v2/auth/sessions");
      again();
    },
  });
}

/** Who has no password sends none. */
function withPassword(body, password) {
  return password === "" ? body : { ...body, password };
}
