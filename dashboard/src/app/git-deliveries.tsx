// The pushes of an app, newest first, each with its verdict, the reason, and what the git host was
// told; they can be processed again.
import type { ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { Action } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Name } from "#parts/name.tsx";
import { PageButtons, useGoToPage } from "#parts/page-buttons.tsx";
import { plainText } from "#parts/plain-text.ts";
import { Answer, State, Time } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { pathOf, queryClient, refreshMs, type AppRef } from "#queries.ts";
import { useApp } from "./app-frame.tsx";
import { Commit } from "./builds-page.tsx";

const deliveriesPath = "/v2/projects/{project_id}/apps/{app_id}/git-deliveries";

const deliveriesOf = (ref: AppRef, page: string | undefined, signal: AbortSignal) => {
  const query = { pageSize: 50, ...(page === undefined ? {} : { nextToken: page }) };
  return ask(api.GET(deliveriesPath, { params: { path: pathOf(ref), query }, signal }));
};

type Delivery = Awaited<ReturnType<typeof deliveriesOf>>["items"][number];

/** The list, page by page. */
export function Deliveries(): ReactNode {
  const ref = useApp();
  const { page }: { readonly page?: string } = useSearch({ strict: false });
  const goTo = useGoToPage();
  const mayReplay = useMay(ref.project)("builds.create");
  const deliveries = useQuery({
    queryKey: ["git-deliveries", ref, page],
    queryFn: ({ signal }) => deliveriesOf(ref, page, signal),
    refetchInterval: page === undefined ? refreshMs : false,
  });
  return (
    <Answer of={deliveries}>
      {({ items, nextToken }) => (
        <>
          <List
            label="Deliveries"
            columns={["Received", "From", "Branch or tag", "Commit", "Verdict", "Reason", ""]}
            empty="No push has been seen yet."
            rows={items.map((one) => ({
              key: one.id,
              cells: [
                <Time key="received" at={one.receivedAt} />,
                one.replayOf === null ? (one.host ?? "asked") : "replayed",
                <Name
                  key="ref"
                  of={one.ref?.replace(/^refs\/(?:heads|tags)\//, "") ?? one.event}
                />,
                <Commit key="commit" of={one} />,
                <Verdict key="verdict" of={one} />,
                <Reason key="reason" of={one} />,
                mayReplay && one.verdict !== "waiting" ? (
                  <Replay key="replay" id={one.id} what={one.ref ?? one.event} />
                ) : null,
              ],
            }))}
          />
          <PageButtons page={page} nextToken={nextToken} goTo={goTo} />
        </>
      )}
    </Answer>
  );
}

/** It leads to the build, if there is one. */
function Verdict({ of: { verdict, buildId } }: { readonly of: Delivery }): ReactNode {
  const ref = useApp();
  if (buildId === null) return <State of={verdict} />;
  return (
    <Link to="/projects/$project/apps/$app/builds/$build" params={{ ...ref, build: buildId }}>
      <State of={verdict} />
    </Link>
  );
}

function Reason({
  of: { reason, commitStatus, commitStatusFailure: failure },
}: {
  readonly of: Delivery;
}): ReactNode {
  return (
    <span className="note">
      <Name of={reason} />
      {commitStatus === null ? "" : ` The host was told: ${commitStatus}.`}
      {failure === null ? null : (
        <>
          {" The host was not told: "}
          <Name of={failure} />
        </>
      )}
    </span>
  );
}

function Replay({ id, what }: { readonly id: string; readonly what: string }): ReactNode {
  const ref = useApp();
  return (
    <Action
      size="compact-xs"
      label={`Replay ${plainText(what)}`}
      onAct={async () => {
        const params = { path: { ...pathOf(ref), git_delivery_id: id } };
        await ask(api.POST(`${deliveriesPath}/{git_delivery_id}/replay`, { params }));
        await queryClient.invalidateQueries({ queryKey: ["git-deliveries"] });
      }}
    >
      Replay
    </Action>
  );
}
