// Signing in: with a password and, where it is on, a second step; with an identity provider where
// the platform has one; or with a service account's token, for this tab.
import { useEffect, useState, type ReactNode } from "react";
import { Link } from "@tanstack/react-router";
import { useQuery } from "@tanstack/react-query";
import { ask, messageOf, openApi } from "#api.ts";
import { Action, FieldForm, type FormField } from "#parts/form.tsx";
import { Narrow, useTitle } from "#parts/show.tsx";
import { becomes, takeReason } from "#queries.ts";
import { keepSignIn, storeToken } from "#session.ts";

/** Why a provider's visit ended without a sign-in, by the word in the address. */
const problems: Readonly<Record<string, string>> = {
  not_invited:
    "There is no account with the email address from the provider. Ask for an invitation.",
  address_not_proven:
    "The provider has not verified your email address, so you cannot sign in with it here.",
  two_factor_first:
    "Your account has two-factor sign-in. Sign in with your password and a code instead.",
  account_taken:
    "This account already signs somebody else in here, so it was not connected to yours.",
  refused: "The provider denied the sign-in.",
  expired: "The sign-in took too long, or was started in another window. Try again.",
  failed:
    "The provider could not be reached. Try again; if the problem persists, tell the operator.",
};

/** The code of the second step. */
export const codeField = {
  name: "code",
  label: "Code",
  hint: "Six digits, or one of your backup codes.",
  autoComplete: "one-time-code",
  autoCapitalize: "none",
  spellCheck: false,
  required: true,
} as const satisfies FormField;

type SignInProps = {
  /** Why, such as an invitation. */
  readonly reason?: string;
  /** Who is expected. */
  readonly email?: string;
  /** A token will not do. */
  readonly isForPeople?: boolean;
};

type Visit = { readonly challenge: string | null; readonly problem: string | null };

/** What a provider's visit brought back behind the address; it is gone from there afterwards. */
function takeVisit(): Visit {
  const said = new URLSearchParams(location.hash.slice(1));
  if (location.hash !== "")
    history.replaceState(history.state, "", location.pathname + location.search);
  return { challenge: said.get("challenge"), problem: said.get("sign-in-problem") };
}

/** Read before the router changes the address. */
const visit = takeVisit();
let isVisitShown = false;

function firstVisit(): Visit {
  if (isVisitShown) return { challenge: null, problem: null };
  return visit;
}

/**
 * Why nothing was connected by the visit that has just ended, if it was to connect an account; said
 * once.
 */
export function useVisitProblem(): string | null {
  const [{ problem }] = useState(firstVisit);
  useEffect(() => {
    isVisitShown = true;
  }, []);
  return problem === null ? null : (problems[problem] ?? problems["failed"] ?? null);
}

/** The page in place of one that is not for whoever is there. */
export function SignIn({ reason = "", email = "", isForPeople = false }: SignInProps): ReactNode {
  const [{ problem, challenge: brought }] = useState(firstVisit);
  const [challenge, setChallenge] = useState(brought);
  const [ended] = useState(takeReason);
  useTitle(challenge === null ? "Sign in" : "Second step");
  if (challenge !== null) return <SecondStep challenge={challenge} />;
  const why = problem === null ? reason || ended : (problems[problem] ?? problems["failed"]);
  return (
    <Narrow>
      <h1>Sign in</h1>
      <FieldForm
        label="Sign in"
        submit="Sign in"
        before={
          <p className="notice" role="status">
            {why}
          </p>
        }
        fields={[
          emailField(email),
          {
            name: "password",
            label: "Password",
            type: "password",
            autoComplete: "current-password",
            required: true,
          },
        ]}
        after={
          <p>
            <Link to="/forgot-password">Forgot your password?</Link>
          </p>
        }
        onSubmit={async ({ email: typed = "", password = "" }) => {
          const answer = await ask(
            openApi.POST("/v2/auth/sign-in", { body: { email: typed, password } }),
          );
          isVisitShown = true;
          if ("challenge" in answer) return setChallenge(answer.challenge);
          keepSignIn(answer);
          becomes("person");
        }}
      />
      <ProviderButtons />
      {isForPeople ? null : <TokenForm />}
    </Narrow>
  );
}

function emailField(email: string): FormField {
  return {
    name: "email",
    label: "Email",
    type: "email",
    autoComplete: "username",
    required: true,
    defaultValue: email,
    readOnly: email !== "",
  };
}

function SecondStep({ challenge }: { readonly challenge: string }): ReactNode {
  return (
    <Narrow>
      <h1>Second step</h1>
      <FieldForm
        label="Second step"
        submit="Continue"
        before={
          <p>
            Your account has two-factor sign-in. Open your authenticator app and enter the code it
            shows.
          </p>
        }
        fields={[{ ...codeField, autoFocus: true }]}
        onSubmit={async ({ code = "" }) => {
          const body = { challenge, code: code.trim() };
          const answer = await ask(openApi.POST("/v2/auth/sign-in/two-factor", { body }));
          isVisitShown = true;
          keepSignIn(answer);
          becomes("person");
        }}
      />
    </Narrow>
  );
}

/**
 * Buttons for the platform's providers, which come back to the page that is open; they appear once
 * it has said which.
 */
export function ProviderButtons(): ReactNode {
  const { data, error } = useQuery({
    queryKey: ["providers"],
    queryFn: ({ signal }) => ask(openApi.GET("/v2/auth/providers", { signal })),
    staleTime: 60_000,
  });
  if (error !== null) {
    return (
      <p className="error" role="alert">
        {messageOf(error)}
      </p>
    );
  }
  return (
    <div className="form">
      {data?.map(({ id, name }) => (
        <Action
          key={id}
          onAct={async () => {
            const body = { provider: id, returnTo: location.pathname + location.search };
            location.assign((await ask(openApi.POST("/v2/auth/sign-in/provider", { body }))).url);
          }}
        >
          Sign in with {name}
        </Action>
      ))}
    </div>
  );
}

function TokenForm(): ReactNode {
  return (
    <details>
      <summary>Use a service account token</summary>
      <FieldForm
        label="Sign in with a token"
        submit="Use this token"
        before={<p>It is kept only in this browser tab and forgotten when you close the tab.</p>}
        fields={[
          {
            name: "token",
            label: "Token",
            type: "password",
            autoComplete: "off",
            spellCheck: false,
            required: true,
          },
        ]}
        onSubmit={async ({ token = "" }) => {
          storeToken(token.trim());
          becomes("token");
          await Promise.resolve();
        }}
      />
    </details>
  );
}
