// Signing in: with a password and, where it is on, a second step; with an identity provider where the platform has one;
// or with a service account's token, for this tab.
import { sendOpenly } from "./dashboard-api.js";
import { form, action, messageOf } from "./forms.js";
import { group, link, make } from "./elements.js";
import { signedIn, storeToken } from "./session.js";

/** Why a provider's visit ended without a sign-in, by the word in the address. */
const problems = {
  not_invited: "There is no account with the email address from the provider. Ask for an invitation.",
  address_not_proven: "The provider has not verified your email address, so you cannot sign in with it here.",
  two_factor_first: "Your account has two-factor sign-in. Sign in with your password and a code instead.",
  refused: "The provider denied the sign-in.",
  expired: "The sign-in took too long, or was started in another window. Try again.",
  failed: "The provider could not be reached. Try again; if the problem persists, tell the operator.",
};

/**
 * Shows the form in `view`; `done` is called when somebody has signed in. `reason`: why they must, such as an ended
 * session. `email`: who is expected. `isForPeople`: a token will not do.
 */
export function showSignIn(view, { done, reason = "", email = "", isForPeople = false }) {
  const visit = takeVisit();
  if (visit.challenge !== null) return showSecondStep(view, { challenge: visit.challenge, done });
  const why = visit.problem === null ? reason : (problems[visit.problem] ?? problems.failed);
  const password = form({
    label: "Sign in",
    submit: "Sign in",
    before: [make("p", why, { class: "notice", role: "status" })],
    fields: [
      {
        name: "email",
        label: "Email",
        type: "email",
        autocomplete: "username",
        required: "",
        value: email,
        ...(email === "" ? {} : { readonly: "" }),
      },
      { name: "password", label: "Password", type: "password", autocomplete: "current-password", required: "" },
    ],
    after: [group("p", [link("/dashboard/forgot-password", "Forgot your password?")])],
    async onSubmit(values) {
      const answer = await sendOpenly("POST", "/v2/auth/sign-in", values);
      if (answer.twoFactorRequired === true) return showSecondStep(view, { challenge: answer.challenge, done });
      signedIn(answer);
      done();
    },
  });
  const others = isForPeople ? [] : [tokenForm(done)];
  const content = [make("h1", "Sign in"), password, providerButtons(), ...others];
  view.replaceChildren(group("div", content, { class: "narrow" }));
}

/** Buttons for the platform's providers, which come back to the page that is open; they appear once it has said which. */
export function providerButtons() {
  const place = make("div", "", { class: "form" });
  void addProviders(place);
  return place;
}

/** What a provider's visit brought back behind the address; it is gone from there afterwards. */
function takeVisit() {
  const said = new URLSearchParams(location.hash.slice(1));
  const visit = { challenge: said.get("challenge"), problem: said.get("sign-in-problem") };
  if (location.hash !== "") history.replaceState(null, "", location.pathname + location.search);
  return visit;
}

function showSecondStep(view, { challenge, done }) {
  const code = form({
    label: "Second step",
    submit: "Continue",
    before: [
      make("p", "Your account has two-factor sign-in. Open your authenticator app and enter the code it shows."),
    ],
    fields: [
      {
        name: "code",
        label: "Code",
        hint: "Six digits, or one of your backup codes.",
        autocomplete: "one-time-code",
        autocapitalize: "none",
        spellcheck: "false",
        required: "",
      },
    ],
    async onSubmit({ code: typed }) {
      const body = { challenge, code: typed.trim() };
      signedIn(await sendOpenly("POST", "/v2/auth/sign-in/two-factor", body));
      done();
    },
  });
  view.replaceChildren(group("div", [make("h1", "Second step"), code], { class: "narrow" }));
  code.querySelector("input").focus();
}

async function addProviders(place) {
  let found;
  try {
    found = await sendOpenly("GET", "/v2/auth/providers");
  } catch (error) {
    place.replaceChildren(make("p", messageOf(error), { class: "error", role: "alert" }));
    return;
  }
  place.replaceChildren(
    ...found.map(({ id, name }) =>
      action({
        text: `Sign in with ${name}`,
        async onClick() {
          const body = { provider: id, returnTo: location.pathname + location.search };
          location.assign((await sendOpenly("POST", "/v2/auth/sign-in/provider", body)).url);
        },
      }),
    ),
  );
}

function tokenForm(done) {
  const element = form({
    label: "Sign in with a token",
    submit: "Use this token",
    before: [make("p", "It is kept only in this browser tab and forgotten when you close the tab.")],
    fields: [
      { name: "token", label: "Token", type: "password", autocomplete: "off", spellcheck: "false", required: "" },
    ],
    async onSubmit({ token }) {
      storeToken(token.trim());
      done();
    },
  });
  return group("details", [make("summary", "Use a service account token"), element]);
}
