// Accepting an invitation, by its link: somebody new chooses a name and a password; somebody known signs in first.
import { ApiError, get, send, sendOpenly } from "./dashboard-api.js";
import { action, form } from "./forms.js";
import { group, heading, link, make } from "./elements.js";
import { bearer, endSession, signedIn, storedToken } from "./session.js";
import { providerButtons, showSignIn } from "./sign-in.js";

/** Shows what the invitation is to. `go` opens another page of the dashboard, `again` this one anew. */
export async function showInvitation(view, { secret, go, again }) {
  let invitation;
  try {
    invitation = await sendOpenly("GET", `/v2/auth/invitations/${encodeURIComponent(secret)}`);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const content = [heading("This invitation cannot be used"), make("p", error.message)];
    view.replaceChildren(group("div", content, { class: "narrow" }));
    return;
  }
  const shown = { view, secret, invitation, go, again };
  if (!invitation.hasAccount) return showNewPerson(shown);
  const person = await personHere();
  if (person === null) return showSignInFirst(shown);
  if (person.email !== invitation.email) return showOtherPerson({ ...shown, person });
  showAccept(shown);
}

function intro({ projectName, role, invitedBy }) {
  const by = invitedBy === null ? "You are invited" : `${invitedBy} has invited you`;
  return make("p", `${by} to the project ${projectName}, with the role ${role}.`);
}

function showNewPerson({ view, secret, invitation, go }) {
  const element = form({
    label: "Your account",
    submit: "Join",
    fields: [
      {
        name: "email",
        label: "Email",
        type: "email",
        autocomplete: "username",
        readonly: "",
        value: invitation.email,
      },
      {
        name: "name",
        label: "Your name",
        hint: "The name that others see.",
        autocomplete: "name",
        required: "",
        maxlength: 100,
      },
      {
        name: "password",
        label: "Password",
        hint: "At least 10 characters. A few unusual words are better than one word with symbols.",
        type: "password",
        autocomplete: "new-password",
        minlength: 10,
        required: "",
      },
    ],
    async onSubmit({ email, name, password }) {
      const accepted = await sendOpenly("POST", "/v2/auth/invitations/accept", { token: secret, name, password });
      signedIn(await sendOpenly("POST", "/v2/auth/sign-in", { email, password }));
      go(`/dashboard/projects/${encodeURIComponent(accepted.projectId)}`);
    },
  });
  // Whoever is vouched for needs no password: they come back as somebody known.
  const content = [make("h1", `Join ${invitation.projectName}`), intro(invitation), element, providerButtons()];
  view.replaceChildren(group("div", content, { class: "narrow" }));
}

function showSignInFirst({ view, invitation, again }) {
  const { email, projectName } = invitation;
  const reason = `You are invited to the project ${projectName}. Sign in as ${email} to accept.`;
  showSignIn(view, { done: again, reason, email, isForPeople: true });
}

function showOtherPerson({ view, invitation, person, again }) {
  const content = [
    heading(`Join ${invitation.projectName}`),
    intro(invitation),
    make("p", `The invitation is for ${invitation.email}, but you are signed in as ${person.email}.`),
    action({
      text: `Sign in as ${invitation.email}`,
      isPrimary: true,
      async onClick() {
        await endSession();
        again();
      },
    }),
    group("p", [link("/dashboard", "Stay signed in without accepting")]),
  ];
  view.replaceChildren(group("div", content, { class: "narrow" }));
}

function showAccept({ view, secret, invitation, go }) {
  const accept = action({
    text: `Join ${invitation.projectName}`,
    isPrimary: true,
    async onClick() {
      const accepted = await send("POST", "/v2/auth/invitations/accept", { token: secret });
      go(`/dashboard/projects/${encodeURIComponent(accepted.projectId)}`);
    },
  });
  const content = [heading(`Join ${invitation.projectName}`), intro(invitation), accept];
  view.replaceChildren(group("div", content, { class: "narrow" }));
}

/** The person who is signed in; null: nobody, or only a token. */
async function personHere() {
  if (storedToken() !== null || (await bearer()) === null) return null;
  return (await get("/v2/auth/session")).person;
}
