// What surrounds the operator's pages. They are for an operator's token; the platform refuses
// everybody else.
import type { ReactNode } from "react";
import { Outlet } from "@tanstack/react-router";
import { Tabs } from "#parts/tabs.tsx";
import { isOperator } from "#session.ts";
import { ForSignedIn } from "#shell.tsx";
import { operatorPages } from "./operator-pages.ts";

/** The frame. */
export function OperatorFrame(): ReactNode {
  return (
    <ForSignedIn>
      <Frame />
    </ForSignedIn>
  );
}

function Frame(): ReactNode {
  if (!isOperator()) {
    return (
      <>
        <h1>For operators</h1>
        <p>
          These pages need an operator&apos;s token, such as <code>operatorToken</code> in{" "}
          <code>bootstrap.json</code>. Sign out, and sign in with it under “Use a service account
          token”.
        </p>
      </>
    );
  }
  return (
    <>
      <Tabs
        label="Operator"
        of={operatorPages.map(([name, to]) => ({ name, to, isWhole: name === "Projects" }))}
      />
      <Outlet />
    </>
  );
}
