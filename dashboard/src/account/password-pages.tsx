// A forgotten password: asking for a link, and choosing a new one with it.
import { useState, type ReactNode } from "react";
import { Link, useParams } from "@tanstack/react-router";
import { ask, openApi } from "#api.ts";
import { FieldForm } from "#parts/form.tsx";
import { Heading, Narrow, useTitle } from "#parts/show.tsx";

/** What a new password has to be. */
const newPasswordField = {
  label: "New password",
  hint: "At least 10 characters. Changing it ends all your sessions.",
  type: "password",
  autoComplete: "new-password",
  minLength: 10,
  required: true,
} as const;

/** Asks for a link. The answer is the same whether the address is known or not. */
export function ForgotPage(): ReactNode {
  useTitle("Forgot your password?");
  const [message, setMessage] = useState<string | null>(null);
  if (message !== null) {
    return (
      <Narrow>
        <Heading>Check your mail</Heading>
        <p>{message}</p>
        <ToSignIn />
      </Narrow>
    );
  }
  return (
    <Narrow>
      <h1>Forgot your password?</h1>
      <FieldForm
        label="Forgot your password?"
        submit="Send link"
        fields={[
          {
            name: "email",
            label: "Email",
            type: "email",
            autoComplete: "username",
            required: true,
          },
        ]}
        after={
          <p>
            <Link to="/">Back to sign-in</Link>
          </p>
        }
        onSubmit={async ({ email = "" }) => {
          setMessage(
            (await ask(openApi.POST("/v2/auth/password/forgot", { body: { email } }))).message,
          );
        }}
      />
    </Narrow>
  );
}

/** Chooses a new password with the secret of a link. */
export function ResetPage(): ReactNode {
  useTitle("New password");
  const { secret = "" } = useParams({ strict: false });
  const [isDone, setDone] = useState(false);
  if (isDone) {
    return (
      <Narrow>
        <Heading>Password changed</Heading>
        <p>Sign in with your new password.</p>
        <ToSignIn />
      </Narrow>
    );
  }
  return (
    <Narrow>
      <h1>Choose a new password</h1>
      <FieldForm
        label="New password"
        submit="Set password"
        fields={[{ name: "password", ...newPasswordField }]}
        onSubmit={async ({ password = "" }) => {
          await ask(openApi.POST("/v2/auth/password/reset", { body: { token: secret, password } }));
          setDone(true);
        }}
      />
    </Narrow>
  );
}

function ToSignIn(): ReactNode {
  return (
    <p>
      <Link to="/">Go to sign-in</Link>
    </p>
  );
}
