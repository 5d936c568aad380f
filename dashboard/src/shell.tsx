// What surrounds every page: where it is, whose account, and signing out; and that pages are shown
// only to whom they are for.
import { useState, type ReactNode } from "react";
import { ActionIcon, Button, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useParams } from "@tanstack/react-router";
import { SignIn } from "#account/sign-in.tsx";
import { messageOf } from "./api.ts";
import { useIsLost } from "./connection.ts";
import { Icon, Problem, useTitle, Waiting } from "./parts/show.tsx";
import { askerQuery, becomes, projectsQuery } from "./queries.ts";
import { endSession, isOperator } from "./session.ts";

/** The frame of all pages. `search`: for whoever is signed in. */
export function Shell({ search }: { readonly search: ReactNode }): ReactNode {
  const [notice, setNotice] = useState("");
  return (
    <>
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <header className="top">
        <Link className="brand" to="/">
          Slipway
        </Link>
        <Trail />
        <Search>{search}</Search>
        <Scheme />
        <Who
          onProblem={(error) => {
            setNotice(messageOf(error));
          }}
        />
      </header>
      <Connection />
      <main id="content" tabIndex={-1}>
        <Outlet />
        <p className="error" role="alert">
          {notice}
        </p>
      </main>
    </>
  );
}

function Trail(): ReactNode {
  const { project, app } = useParams({ strict: false });
  const asker = useQuery(askerQuery);
  const projects = useQuery({
    ...projectsQuery,
    enabled: asker.data !== undefined && asker.data !== "nobody",
  });
  if (project === undefined) return <nav aria-label="Breadcrumb" className="trail" />;
  const name = projects.data?.find(({ id }) => id === project)?.name ?? project;
  return (
    <nav aria-label="Breadcrumb" className="trail">
      <ol>
        <li>
          <Link to="/projects/$project" params={{ project }} title={project}>
            <bdi>{name}</bdi>
          </Link>
        </li>
        {app === undefined ? null : (
          <li>
            <Link to="/projects/$project/apps/$app" params={{ project, app }}>
              {app.startsWith(`${project}-`) ? app.slice(project.length + 1) : app}
            </Link>
          </li>
        )}
      </ol>
    </nav>
  );
}

function Connection(): ReactNode {
  const isLost = useIsLost();
  return (
    <p className="lost" role="status">
      {isLost
        ? "The connection to the platform is lost. What is shown may be out of date; trying again …"
        : ""}
    </p>
  );
}

function Search({ children }: { readonly children: ReactNode }): ReactNode {
  const asker = useQuery(askerQuery);
  return asker.data === undefined || asker.data === "nobody" ? null : children;
}

function Scheme(): ReactNode {
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme("light");
  const other = scheme === "dark" ? "light" : "dark";
  return (
    <ActionIcon
      variant="subtle"
      color="gray"
      aria-label={`Show in ${other} colours`}
      onClick={() => {
        setColorScheme(other);
      }}
    >
      <Icon name={scheme === "dark" ? "sun" : "moon"} />
    </ActionIcon>
  );
}

function Who({ onProblem }: { readonly onProblem: (error: unknown) => void }): ReactNode {
  const asker = useQuery(askerQuery);
  if (asker.data === undefined || asker.data === "nobody") return null;
  return (
    <>
      {asker.data === "person" ? (
        <Link className="quiet" to="/account">
          Your account
        </Link>
      ) : null}
      {isOperator() ? (
        <Link className="quiet" to="/operator">
          Operator
        </Link>
      ) : null}
      <Button
        variant="default"
        onClick={() => {
          endSession()
            .then(() => {
              becomes("nobody");
            })
            .catch(onProblem);
        }}
      >
        Sign out
      </Button>
    </>
  );
}

/**
 * Shows the page to whoever is signed in; `isForPeople`: not to tokens. Everybody else is asked to
 * sign in.
 */
export function ForSignedIn({
  isForPeople = false,
  children,
}: {
  readonly isForPeople?: boolean;
  readonly children: ReactNode;
}): ReactNode {
  const asker = useQuery(askerQuery);
  if (asker.data === undefined)
    return asker.error === null ? <Waiting /> : <Problem error={asker.error} />;
  if (asker.data === "nobody" || (isForPeople && asker.data === "token")) {
    return <SignIn key={asker.data} isForPeople={isForPeople} />;
  }
  return children;
}

/** The page for addresses that do not exist. */
export function NothingHere(): ReactNode {
  useTitle("Page not found");
  return (
    <>
      <h1>Page not found</h1>
      <Link to="/">Go to the dashboard</Link>
    </>
  );
}
