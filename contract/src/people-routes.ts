// Routes for people: sign-in and sign-out, access tokens, sessions. Those that use a cookie accept
// requests only from pages of the platform itself.
import { z } from "zod";
import { messageAnswer } from "./answers.ts";
import {
  accessAnswer,
  me,
  providerList,
  providerVisit,
  sessionList,
  signInAnswer,
  signInMethods,
} from "./people-answers.ts";
import {
  providerFields,
  signInFields,
  signInMethodFields,
  signOutFields,
  tokenFields,
} from "./people-fields.ts";
import type { Route } from "./route.ts";

const auth = "/v2/auth";

/** By operation id; part of the table in `routes.ts`. */
export const peopleRoutes = {
  signIn: {
    method: "POST",
    path: `${auth}/sign-in`,
    about:
      "Signs a person in with a password: answers with an access token and a refresh token, and sets the session's cookie. With two-factor sign-in on, it answers with a challenge instead.",
    access: "public",
    audit: "person.sign_in",
    body: { kind: "fields", fields: signInFields, required: ["email", "password"] },
    status: 200,
    answer: signInAnswer,
  },
  listProviders: {
    method: "GET",
    path: `${auth}/providers`,
    about: "The providers that people can sign in with here.",
    access: "public",
    audit: null,
    status: 200,
    answer: providerList,
  },
  signInWithProvider: {
    method: "POST",
    path: `${auth}/sign-in/provider`,
    about:
      "Starts a sign-in with a provider: the response has the URL to send the browser to, and sets a cookie for the visit.",
    access: "public",
    audit: null,
    body: { kind: "fields", fields: providerFields, required: ["provider"] },
    status: 200,
    answer: providerVisit,
  },
  listSignInMethods: {
    method: "GET",
    path: `${auth}/sign-in-methods`,
    about:
      "With what the person can sign in: whether they have a password, and which providers' accounts are connected.",
    access: "person",
    audit: null,
    status: 200,
    answer: signInMethods,
  },
  connectProvider: {
    method: "POST",
    path: `${auth}/sign-in-methods/connect`,
    about:
      "Starts to connect the person's account with a provider: the response has the URL to send the browser to, and sets a cookie for the visit. An account that is somebody else's way to sign in is refused.",
    access: "person",
    audit: "person.provider_connect",
    body: { kind: "fields", fields: signInMethodFields, required: ["provider"] },
    status: 200,
    answer: providerVisit,
  },
  disconnectProvider: {
    method: "POST",
    path: `${auth}/sign-in-methods/disconnect`,
    about:
      "Disconnects the person's account with a provider, unless it is their only way to sign in. A later sign-in with an account that has the person's own email address connects it again.",
    access: "person",
    audit: "person.provider_disconnect",
    body: { kind: "fields", fields: signInMethodFields, required: ["provider"] },
    status: 200,
    answer: messageAnswer,
  },
  providerCallback: {
    method: "GET",
    path: `${auth}/callback/{provider}`,
    about:
      "The callback to which a provider sends the browser back. Sets the session's cookie and redirects to the dashboard, to the account page when an account was connected: with #challenge=… when a second step is needed, with #sign-in-problem=… when the person is not admitted.",
    access: "public",
    audit: "person.sign_in",
    status: 302,
    answer: z.never(),
    isBytes: true,
  },
  issueAccessToken: {
    method: "POST",
    path: `${auth}/token`,
    about:
      "A new access token for a refresh token, in a JSON body or as a form (OAuth 2.0, grant_type=refresh_token), or for the session's cookie.",
    access: "public",
    audit: null,
    body: { kind: "fields", fields: tokenFields, required: [] },
    takesForm: true,
    status: 200,
    answer: accessAnswer,
  },
  signOut: {
    method: "POST",
    path: `${auth}/sign-out`,
    about:
      "Ends the session of a refresh token, or of the cookie, which is removed. The response is the same if there is none.",
    access: "public",
    audit: "person.sign_out",
    body: { kind: "fields", fields: signOutFields, required: [] },
    status: 200,
    answer: messageAnswer,
  },
  getSession: {
    method: "GET",
    path: `${auth}/session`,
    about:
      "The person whose access token this is, the session, and the projects that they are a member of.",
    access: "person",
    audit: null,
    status: 200,
    answer: me,
  },
  listSessions: {
    method: "GET",
    path: `${auth}/sessions`,
    about: "The person's sessions, most recently used first.",
    access: "person",
    audit: null,
    status: 200,
    answer: sessionList,
  },
  endSession: {
    method: "DELETE",
    path: `${auth}/sessions/{session_id}`,
    about: "Ends one of the person's sessions; its access tokens are refused within a second.",
    access: "person",
    audit: "person.session_end",
    status: 200,
    answer: messageAnswer,
  },
  endOtherSessions: {
    method: "DELETE",
    path: `${auth}/sessions`,
    about: "Ends all of the person's sessions except the one of the request.",
    access: "person",
    audit: "person.session_end",
    status: 200,
    answer: messageAnswer,
  },
} as const satisfies Record<string, Route>;
