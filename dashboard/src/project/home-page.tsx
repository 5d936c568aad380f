// The first page: the projects of whoever is signed in, or at once the only one.
import type { ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { Link, Navigate } from "@tanstack/react-router";
import { List } from "#parts/list.tsx";
import { Answer, useTitle } from "#parts/show.tsx";
import { askerQuery, projectsQuery } from "#queries.ts";

/** The page. */
export function HomePage(): ReactNode {
  const projects = useQuery(projectsQuery);
  const isPerson = useQuery(askerQuery).data === "person";
  useTitle("Projects");
  return (
    <Answer of={projects}>
      {(all) => {
        const [first] = all;
        if (all.length === 1 && first !== undefined) {
          return <Navigate to="/projects/$project" params={{ project: first.id }} replace />;
        }
        return (
          <>
            <div className="title">
              <h1>Projects</h1>
              {isPerson ? (
                <Link className="as-button" to="/projects/new">
                  New project
                </Link>
              ) : null}
            </div>
            <List
              label="Projects"
              columns={["Name", "Id"]}
              empty={`You are in no project. ${isPerson ? "Make one, or ask" : "Ask"} somebody who is in one for an invitation.`}
              rows={all.map(({ id, name }) => ({
                key: id,
                cells: [
                  <Link key="name" to="/projects/$project" params={{ project: id }}>
                    {name}
                  </Link>,
                  <code key="id">{id}</code>,
                ],
              }))}
            />
          </>
        );
      }}
    </Answer>
  );
}
