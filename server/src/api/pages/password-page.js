// A forgotten password: asking for a link, and choosing a new one with it.
import { sendOpenly } from "./dashboard-api.js";
import { form } from "./forms.js";
import { group, heading, link, make } from "./elements.js";

/** Asks for a link. The answer is the same whether the address is known or not. */
export function showForgot(view) {
  const element = form({
    label: "Forgot your password?",
    submit: "Send link",
    fields: [{ name: "email", label: "Email", type: "email", autocomplete: "username", required: "" }],
    after: [group("p", [link("/dashboard", "Back to sign-in")])],
    async onSubmit({ email }) {
      const { message } = await sendOpenly("POST", "/v2/auth/password/forgot", { email });
      show(view, [heading("Check your mail"), make("p", message), group("p", [link("/dashboard", "Go to sign-in")])]);
    },
  });
  show(view, [make("h1", "Forgot your password?"), element]);
}

/** Chooses a new password with the secret of a link. */
export function showReset(view, { secret }) {
  const element = form({
    label: "New password",
    submit: "Set password",
    fields: [
      {
        name: "password",
        label: "New password",
        hint: "At least 10 characters. Changing it ends all your sessions.",
        type: "password",
        autocomplete: "new-password",
        minlength: 10,
        required: "",
      },
    ],
    async onSubmit({ password }) {
      await sendOpenly("POST", "/v2/auth/password/reset", { token: secret, password });
      const content = [make("p", "Sign in with your new password."), group("p", [link("/dashboard", "Go to sign-in")])];
      show(view, [heading("Password changed"), ...content]);
    },
  });
  show(view, [make("h1", "Choose a new password"), element]);
}

function show(view, content) {
  view.replaceChildren(group("div", content, { class: "narrow" }));
}
