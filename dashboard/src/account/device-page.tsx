// Approving a device: what shows a code wants to be signed in as whoever looks at this page.
import { useState, type ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { ApiError } from "@slipway/client/client.ts";
import { api, ask } from "#api.ts";
import { Action, FieldForm } from "#parts/form.tsx";
import { Answer, Facts, Heading, Narrow, Time, useTitle } from "#parts/show.tsx";
import { becomes, meQuery } from "#queries.ts";
import { endSession } from "#session.ts";

const loginOf = (code: string) =>
  ask(api.GET("/v2/auth/device-logins/{user_code}", { params: { path: { user_code: code } } }));

type Login = Awaited<ReturnType<typeof loginOf>>;

/** The request that a link names, or why there is none. */
async function namedLogin(
  code: string,
): Promise<{ readonly login: Login | null; readonly problem: string }> {
  if (code === "") return { login: null, problem: "" };
  try {
    return { login: await loginOf(code), problem: "" };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status === 401) throw error;
    return { login: null, problem: error.message };
  }
}

/** Asks for the code, unless the link had it, shows what asks, and lets the person decide. */
export function DevicePage(): ReactNode {
  useTitle("Sign in a device");
  const { code = "" } = useSearch({ strict: false });
  const named = useQuery({
    queryKey: ["device", code],
    queryFn: () => namedLogin(code),
    staleTime: Infinity,
    refetchOnWindowFocus: false,
  });
  const me = useQuery(meQuery);
  const [typed, setTyped] = useState<Login | null>(null);
  const [end, setEnd] = useState<string | null>(null);
  return (
    <Narrow>
      <Answer of={me}>
        {({ person }) => (
          <Answer of={named}>
            {({ login, problem }) => {
              const shown = typed ?? login;
              const state = end ?? (shown?.state === "waiting" ? null : (shown?.state ?? null));
              if (state !== null) return <End state={state} />;
              return (
                <>
                  {shown === null ? (
                    <CodeForm problem={problem} onFound={setTyped} />
                  ) : (
                    <Request login={shown} onEnd={setEnd} />
                  )}
                  <WhoIs email={person.email} />
                </>
              );
            }}
          </Answer>
        )}
      </Answer>
    </Narrow>
  );
}

function CodeForm({
  problem,
  onFound,
}: {
  readonly problem: string;
  readonly onFound: (login: Login) => void;
}): ReactNode {
  return (
    <>
      <Heading>Sign in a device</Heading>
      <FieldForm
        label="Code"
        submit="Continue"
        before={
          <p className="error" role="alert">
            {problem}
          </p>
        }
        fields={[
          {
            name: "code",
            label: "Code shown by your command line",
            hint: "Eight letters, such as BCDF-GHJK.",
            autoComplete: "off",
            autoCapitalize: "characters",
            spellCheck: false,
            required: true,
          },
        ]}
        onSubmit={async ({ code = "" }) => onFound(await loginOf(code))}
      />
    </>
  );
}

function Request({
  login,
  onEnd,
}: {
  readonly login: Login;
  readonly onEnd: (state: string) => void;
}): ReactNode {
  const decide = (decision: "approve" | "deny") => async (): Promise<void> => {
    const path = { user_code: login.userCode };
    onEnd(
      (
        await ask(
          api.POST("/v2/auth/device-logins/{user_code}", { params: { path }, body: { decision } }),
        )
      ).state,
    );
  };
  return (
    <>
      <Heading>Sign in this device?</Heading>
      <p className="code" aria-label={`The code ${login.userCode.split("").join(" ")}`} role="text">
        {login.userCode}
      </p>
      <Facts
        of={[
          ["Client (self-reported)", login.client === "" ? "unknown" : login.client],
          ["Address", login.address ?? "unknown"],
          ["Since", <Time key="since" at={login.createdAt} />],
        ]}
      />
      <p>
        Approve it only if you have just started this sign-in yourself and the codes match.
        Approving a stranger&apos;s code lets the stranger in.
      </p>
      <div className="choices">
        <Action variant="filled" onAct={decide("approve")}>
          Approve
        </Action>
        <Action onAct={decide("deny")}>Deny</Action>
      </div>
    </>
  );
}

function End({ state }: { readonly state: string }): ReactNode {
  if (state === "approved") {
    return (
      <>
        <Heading>The device is signed in</Heading>
        <p>Go back to your command line. You can close this page.</p>
      </>
    );
  }
  return (
    <>
      <Heading>The device was denied</Heading>
      <p>It was not signed in. You can close this page.</p>
    </>
  );
}

function WhoIs({ email }: { readonly email: string }): ReactNode {
  return (
    <div className="who">
      <p className="muted">You are signed in as {email}.</p>
      <Action
        onAct={async () => {
          await endSession();
          becomes("nobody");
        }}
      >
        Sign in as someone else
      </Action>
    </div>
  );
}
