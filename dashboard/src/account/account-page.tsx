// The person's own account: with what they sign in, password, two-factor sign-in, and where they
// are signed in.
import type { ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { api, ask } from "#api.ts";
import { Action, FieldForm } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Answer, Facts, Heading, Time, useTitle } from "#parts/show.tsx";
import { meQuery, queryClient } from "#queries.ts";
import { SignInMethods } from "./sign-in-methods.tsx";
import { TwoFactor } from "./two-factor.tsx";

const sessionsQuery = {
  queryKey: ["sessions"],
  queryFn: ({ signal }: { signal: AbortSignal }) => ask(api.GET("/v2/auth/sessions", { signal })),
};

async function again(): Promise<void> {
  await queryClient.invalidateQueries({ queryKey: sessionsQuery.queryKey });
}

/** The page. */
export function AccountPage(): ReactNode {
  useTitle("Your account");
  const me = useQuery(meQuery);
  return (
    <Answer of={me}>
      {({ person }) => (
        <>
          <Heading>Your account</Heading>
          <Facts
            of={[
              ["Name", person.name],
              ["Email", person.email],
            ]}
          />
          <h2>Sign-in methods</h2>
          <SignInMethods email={person.email} />
          <h2>Two-factor sign-in</h2>
          <div className="narrow">
            <TwoFactor isOn={person.twoFactorEnabled} />
          </div>
          <h2>Password</h2>
          <div className="narrow">
            <PasswordForm />
          </div>
          <h2>Active sessions</h2>
          <Sessions />
        </>
      )}
    </Answer>
  );
}

function PasswordForm(): ReactNode {
  return (
    <FieldForm
      label="Change password"
      submit="Change password"
      fields={[
        {
          name: "currentPassword",
          label: "Current password",
          type: "password",
          autoComplete: "current-password",
          required: true,
        },
        {
          name: "newPassword",
          label: "New password",
          hint: "At least 10 characters. Changing it ends all your other sessions.",
          type: "password",
          autoComplete: "new-password",
          minLength: 10,
          required: true,
        },
      ]}
      onSubmit={async ({ currentPassword = "", newPassword = "" }) => {
        await ask(api.POST("/v2/auth/password", { body: { currentPassword, newPassword } }));
        await again();
      }}
    />
  );
}

function Sessions(): ReactNode {
  const sessions = useQuery(sessionsQuery);
  return (
    <Answer of={sessions}>
      {(all) => (
        <>
          <List
            label="Active sessions"
            columns={["With", "From", "Last used", ""]}
            rows={all.map((one) => ({
              key: one.id,
              cells: [
                one.userAgent ?? "unknown",
                one.address ?? "unknown",
                <Time key="used" at={one.lastUsedAt} />,
                one.isCurrent ? "this session" : <EndSession key="end" id={one.id} />,
              ],
            }))}
          />
          {all.length > 1 ? (
            <Action
              onAct={async () => {
                await ask(api.DELETE("/v2/auth/sessions", {}));
                await again();
              }}
            >
              End all other sessions
            </Action>
          ) : null}
        </>
      )}
    </Answer>
  );
}

function EndSession({ id }: { readonly id: string }): ReactNode {
  return (
    <Action
      size="compact-xs"
      onAct={async () => {
        await ask(
          api.DELETE("/v2/auth/sessions/{session_id}", { params: { path: { session_id: id } } }),
        );
        await again();
      }}
    >
      End
    </Action>
  );
}
