// Accepting an invitation, by its link: somebody new chooses a name and a password; somebody known
// signs in first.
import type { ReactNode } from "react";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useQuery } from "@tanstack/react-query";
import { ApiError } from "@slipway/client/client.ts";
import { api, ask, openApi } from "#api.ts";
import { Action, FieldForm } from "#parts/form.tsx";
import { Answer, Heading, Narrow, Problem, useTitle, Waiting } from "#parts/show.tsx";
import { askerQuery, becomes, meQuery } from "#queries.ts";
import { endSession, keepSignIn } from "#session.ts";
import { ProviderButtons, SignIn } from "./sign-in.tsx";

const invitationOf = (token: string) =>
  ask(openApi.GET("/v2/auth/invitations/{token}", { params: { path: { token } } }));

type Invitation = Awaited<ReturnType<typeof invitationOf>>;
type Shown = { readonly secret: string; readonly invitation: Invitation };

/** Shows what the invitation is to, and lets the person it is for accept it. */
export function InvitationPage(): ReactNode {
  useTitle("Invitation");
  const { secret = "" } = useParams({ strict: false });
  const found = useQuery({
    queryKey: ["invitation", secret],
    queryFn: () => invitationOf(secret),
    staleTime: Infinity,
    refetchOnWindowFocus: false,
  });
  if (found.error instanceof ApiError) {
    return (
      <Narrow>
        <Heading>This invitation cannot be used</Heading>
        <p>{found.error.message}</p>
      </Narrow>
    );
  }
  return (
    <Answer of={found}>
      {(invitation) => <ForWhom secret={secret} invitation={invitation} />}
    </Answer>
  );
}

function ForWhom({ secret, invitation }: Shown): ReactNode {
  const asker = useQuery(askerQuery);
  if (!invitation.hasAccount) return <NewPerson secret={secret} invitation={invitation} />;
  if (asker.error !== null) return <Problem error={asker.error} />;
  if (asker.data === undefined) return <Waiting />;
  if (asker.data === "person") return <Known secret={secret} invitation={invitation} />;
  const { email, projectName } = invitation;
  const reason = `You are invited to the project ${projectName}. Sign in as ${email} to accept.`;
  return <SignIn reason={reason} email={email} isForPeople />;
}

function Known({ secret, invitation }: Shown): ReactNode {
  const me = useQuery(meQuery);
  return (
    <Narrow>
      <Answer of={me}>
        {({ person }) =>
          person.email === invitation.email ? (
            <Accept secret={secret} invitation={invitation} />
          ) : (
            <OtherPerson invitation={invitation} email={person.email} />
          )
        }
      </Answer>
    </Narrow>
  );
}

function Intro({ projectName, role, invitedBy }: Invitation): ReactNode {
  const by = invitedBy === null ? "You are invited" : `${invitedBy} has invited you`;
  return <p>{`${by} to the project ${projectName}, with the role ${role}.`}</p>;
}

function NewPerson({ secret, invitation }: Shown): ReactNode {
  const enter = useEnter();
  return (
    <Narrow>
      <h1>Join {invitation.projectName}</h1>
      <Intro {...invitation} />
      <FieldForm
        label="Your account"
        submit="Join"
        fields={[
          {
            name: "email",
            label: "Email",
            type: "email",
            autoComplete: "username",
            readOnly: true,
            defaultValue: invitation.email,
          },
          {
            name: "name",
            label: "Your name",
            hint: "The name that others see.",
            autoComplete: "name",
            required: true,
            maxLength: 100,
          },
          {
            name: "password",
            label: "Password",
            hint: "At least 10 characters. A few unusual words are better than one word with symbols.",
            type: "password",
            autoComplete: "new-password",
            minLength: 10,
            required: true,
          },
        ]}
        onSubmit={async ({ email = "", name = "", password = "" }) => {
          const body = { token: secret, name, password };
          const { projectId } = await ask(openApi.POST("/v2/auth/invitations/accept", { body }));
          const answer = await ask(openApi.POST("/v2/auth/sign-in", { body: { email, password } }));
          if (!("challenge" in answer)) keepSignIn(answer);
          becomes("person");
          await enter(projectId);
        }}
      />
      {/* Whoever is vouched for needs no password: they come back as somebody known. */}
      <ProviderButtons />
    </Narrow>
  );
}

function OtherPerson({
  invitation,
  email,
}: {
  readonly invitation: Invitation;
  readonly email: string;
}): ReactNode {
  return (
    <>
      <Heading>Join {invitation.projectName}</Heading>
      <Intro {...invitation} />
      <p>{`The invitation is for ${invitation.email}, but you are signed in as ${email}.`}</p>
      <Action
        variant="filled"
        onAct={async () => {
          await endSession();
          becomes("nobody");
        }}
      >
        Sign in as {invitation.email}
      </Action>
      <p>
        <Link to="/">Stay signed in without accepting</Link>
      </p>
    </>
  );
}

function Accept({ secret, invitation }: Shown): ReactNode {
  const enter = useEnter();
  return (
    <>
      <Heading>Join {invitation.projectName}</Heading>
      <Intro {...invitation} />
      <Action
        variant="filled"
        onAct={async () => {
          const { projectId } = await ask(
            api.POST("/v2/auth/invitations/accept", { body: { token: secret } }),
          );
          becomes("person");
          await enter(projectId);
        }}
      >
        Join {invitation.projectName}
      </Action>
    </>
  );
}

function useEnter(): (project: string) => Promise<void> {
  const navigate = useNavigate();
  return (project) => navigate({ to: "/projects/$project", params: { project } });
}
