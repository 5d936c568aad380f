// With what a person signs in: their password, and accounts with providers, which they connect and
// disconnect.
import type { ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { api, ask } from "#api.ts";
import { FieldForm } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Answer, Time } from "#parts/show.tsx";
import { queryClient } from "#queries.ts";
import { useVisitProblem } from "./sign-in.tsx";
import { passwordField, withPassword } from "./two-factor.tsx";

const methodsQuery = {
  queryKey: ["sign-in-methods"],
  queryFn: ({ signal }: { signal: AbortSignal }) =>
    ask(api.GET("/v2/auth/sign-in-methods", { signal })),
};

type Provider = Awaited<ReturnType<typeof methodsQuery.queryFn>>["providers"][number];

/** The table, and what can be changed. `email`: the person's own address. */
export function SignInMethods({ email }: { readonly email: string }): ReactNode {
  const methods = useQuery(methodsQuery);
  const problem = useVisitProblem();
  return (
    <Answer of={methods}>
      {({ hasPassword, providers }) => (
        <>
          {problem === null ? null : (
            <p className="error" role="alert">
              {problem}
            </p>
          )}
          <List
            label="Sign-in methods"
            columns={["Method", "Account", "Connected"]}
            rows={[
              { key: "password", cells: ["Password", hasPassword ? "set" : "not set", ""] },
              ...providers.map(({ id, name, connectedAt, email: there }) => ({
                key: id,
                cells: [
                  name,
                  connectedAt === null ? "not connected" : (there ?? "connected"),
                  connectedAt === null ? "" : <Time key="at" at={connectedAt} />,
                ],
              })),
            ]}
          />
          {hasPassword ? null : (
            <p>To set a password, request a link on the sign-in page, as for a forgotten one.</p>
          )}
          <div className="narrow">
            {providers.map((provider) => (
              <Change
                key={provider.id}
                provider={provider}
                hasPassword={hasPassword}
                email={email}
              />
            ))}
          </div>
        </>
      )}
    </Answer>
  );
}

type ChangeProps = {
  readonly provider: Provider;
  readonly hasPassword: boolean;
  readonly email: string;
};

/** Connects the account, or disconnects it. */
function Change({
  provider: { id, name, connectedAt },
  hasPassword,
  email,
}: ChangeProps): ReactNode {
  const verb = connectedAt === null ? "Connect" : "Disconnect";
  const fields = hasPassword ? [{ ...passwordField, hint: "", required: true }] : [];
  const before =
    connectedAt === null
      ? `You choose the account with ${name} next. Its email address need not be ${email}.`
      : `You can no longer sign in with this account. An account with ${name} that has the address ${email} can still sign you in, and is connected again by that.`;
  return (
    <details key={verb}>
      <summary>{`${verb} ${name}`}</summary>
      <FieldForm
        label={`${verb} ${name}`}
        submit={verb}
        before={<p>{before}</p>}
        fields={fields}
        onSubmit={async ({ password = "" }) => {
          const body = withPassword({ provider: id }, password);
          if (connectedAt === null) {
            return location.assign(
              (await ask(api.POST("/v2/auth/sign-in-methods/connect", { body }))).url,
            );
          }
          await ask(api.POST("/v2/auth/sign-in-methods/disconnect", { body }));
          await queryClient.invalidateQueries({ queryKey: methodsQuery.queryKey });
        }}
      />
    </details>
  );
}
