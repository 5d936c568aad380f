// Turning two-factor sign-in on and off, and new backup codes.
import { useEffect, useRef, useState, type ReactNode } from "react";
import { encode } from "uqr";
import { api, ask } from "#api.ts";
import { FieldForm, type FormField } from "#parts/form.tsx";
import { meQuery, queryClient } from "#queries.ts";
import { keepSignIn } from "#session.ts";
import { codeField as signInCode } from "./sign-in.tsx";

/** Whoever has one shows it again. */
export const passwordField: FormField = {
  name: "password",
  label: "Your password",
  hint: "Leave this empty if you have no password because you sign in with a provider.",
  type: "password",
  autoComplete: "current-password",
};
const codeField: FormField = { ...signInCode, label: "Authenticator code" };

type Enrolment = { readonly uri: string; readonly backupCodes: readonly string[] };

async function again(): Promise<void> {
  await queryClient.invalidateQueries({ queryKey: meQuery.queryKey });
}

/** Who has no password sends none. */
export function withPassword<Body extends object>(
  body: Body,
  password: string,
): Body & { password?: string } {
  return password === "" ? body : { ...body, password };
}

/** As it is now, with what can be changed. */
export function TwoFactor({ isOn }: { readonly isOn: boolean }): ReactNode {
  const [enrolment, setEnrolment] = useState<Enrolment | null>(null);
  if (isOn) return <WhenOn />;
  if (enrolment !== null) return <Confirmation {...enrolment} onDone={() => setEnrolment(null)} />;
  return (
    <FieldForm
      label="Turn on two-factor sign-in"
      submit="Turn on"
      before={
        <p>
          It is off. When it is on, you need a code from an authenticator app as well as your
          password to sign in.
        </p>
      }
      fields={[passwordField]}
      onSubmit={async ({ password = "" }) => {
        setEnrolment(
          await ask(api.POST("/v2/auth/two-factor", { body: withPassword({}, password) })),
        );
      }}
    />
  );
}

function Confirmation({
  uri,
  backupCodes,
  onDone,
}: Enrolment & { readonly onDone: () => void }): ReactNode {
  const secret = new URL(uri).searchParams.get("secret") ?? "";
  return (
    <FieldForm
      label="Confirm with a code"
      submit="Confirm"
      before={
        <>
          <p>Read this with your authenticator app:</p>
          <QrCode text={uri} />
          <p>Or add this key to it:</p>
          <p className="key">{secret}</p>
          <p>
            <a href={uri}>Open in an app on this device</a>
          </p>
          <p>
            Store these backup codes separately from the app. Each works once. They are not shown
            again:
          </p>
          <Codes codes={backupCodes} />
        </>
      }
      fields={[
        {
          ...codeField,
          hint: "The six digits that the app shows now. This turns on two-factor sign-in.",
        },
      ]}
      onSubmit={async ({ code = "" }) => {
        keepSignIn(
          await ask(api.POST("/v2/auth/two-factor/confirm", { body: { code: code.trim() } })),
        );
        await again();
        onDone();
      }}
    />
  );
}

/** Dark on light in both schemes, as readers of such codes expect it. */
function QrCode({ text }: { readonly text: string }): ReactNode {
  const { data, size } = encode(text, { border: 2 });
  const squares = data.flatMap((row, y) =>
    row.flatMap((isDark, x) => (isDark ? [`M${x} ${y}h1v1h-1z`] : [])),
  );
  return (
    <svg
      className="qr-code"
      viewBox={`0 0 ${size} ${size}`}
      role="img"
      aria-label="Code for an authenticator app"
    >
      <rect width={size} height={size} fill="#fff" />
      <path d={squares.join("")} fill="#000" />
    </svg>
  );
}

function WhenOn(): ReactNode {
  const [codes, setCodes] = useState<readonly string[] | null>(null);
  return (
    <>
      <p>It is on: you need a code from your authenticator app to sign in.</p>
      <details>
        <summary>Create new backup codes</summary>
        {codes === null ? (
          <FieldForm
            label="New backup codes"
            submit="Create new backup codes"
            fields={[passwordField, codeField]}
            onSubmit={async ({ code = "", password = "" }) => {
              const body = withPassword({ code: code.trim() }, password);
              setCodes(
                (await ask(api.POST("/v2/auth/two-factor/backup-codes", { body }))).backupCodes,
              );
            }}
          />
        ) : (
          <>
            <p>These are your new backup codes. The old ones no longer work:</p>
            <Codes codes={codes} isFocused />
          </>
        )}
      </details>
      <details>
        <summary>Turn it off</summary>
        <FieldForm
          label="Turn off two-factor sign-in"
          submit="Turn off"
          fields={[passwordField, codeField]}
          onSubmit={async ({ code = "", password = "" }) => {
            const body = withPassword({ code: code.trim() }, password);
            keepSignIn(await ask(api.POST("/v2/auth/two-factor/disable", { body })));
            await again();
          }}
        />
      </details>
    </>
  );
}

function Codes({
  codes,
  isFocused = false,
}: {
  readonly codes: readonly string[];
  readonly isFocused?: boolean;
}): ReactNode {
  const element = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (isFocused) element.current?.focus();
  }, [isFocused]);
  return (
    <pre ref={element} className="key" tabIndex={0} aria-label="Backup codes">
      {codes.join("\n")}
    </pre>
  );
}
