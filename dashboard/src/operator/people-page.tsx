// Help for people who cannot sign in: a link to set a new password, and turning off their second
// step.
import { useState, type ReactNode } from "react";
import { Checkbox } from "@mantine/core";
import { api, ask } from "#api.ts";
import { FieldForm, type FormField } from "#parts/form.tsx";
import { Once } from "#parts/once.tsx";
import { Time, useTitle } from "#parts/show.tsx";

const email: FormField = {
  name: "email",
  label: "Email of the person",
  type: "email",
  autoComplete: "off",
  required: true,
  spellCheck: false,
};

/** The page. */
export function PeoplePage(): ReactNode {
  useTitle("People", "Operator");
  return (
    <>
      <h1>People who cannot sign in</h1>
      <div className="ways">
        <Password />
        <TwoFactor />
      </div>
    </>
  );
}

function Password(): ReactNode {
  const [link, setLink] = useState<{ readonly url: string; readonly expiresAt: string } | null>(
    null,
  );
  return (
    <section>
      <h2>A new password</h2>
      <p>
        Makes a link with which the person sets a new password. It works once: pass it on on a way
        that you trust.
      </p>
      {link === null ? null : (
        <Once label="the link" text={link.url}>
          The link, until <Time at={link.expiresAt} />. It is shown only now: copy it.
        </Once>
      )}
      <FieldForm
        label="A new password"
        submit="Make a link"
        fields={[email]}
        onSubmit={async ({ email: to = "" }) => {
          setLink(null);
          setLink(await ask(api.POST("/v2/operator/password-resets", { body: { email: to } })));
        }}
      />
    </section>
  );
}

function TwoFactor(): ReactNode {
  const [isSure, setSure] = useState(false);
  const [done, setDone] = useState("");
  return (
    <section>
      <h2>Sign-in without the second step</h2>
      <p>
        For people who have lost their authenticator app and their backup codes. Be sure that it is
        really them: this turns off their two-factor sign-in and ends their sessions.
      </p>
      <p role="status">{done}</p>
      <FieldForm
        label="Sign-in without the second step"
        submit="Turn off two-factor sign-in"
        fields={[email]}
        more={
          <Checkbox
            size="xs"
            required
            label="I have made sure that it is this person who asks"
            checked={isSure}
            onChange={({ currentTarget }) => setSure(currentTarget.checked)}
          />
        }
        onSubmit={async ({ email: to = "" }) => {
          setDone("");
          setDone(
            (await ask(api.POST("/v2/operator/two-factor-resets", { body: { email: to } })))
              .message,
          );
          setSure(false);
        }}
      />
    </section>
  );
}
