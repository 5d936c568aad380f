// What the command palette offers: the pages of the app and the project that are open, the
// project's apps, all projects, and what can be done from everywhere.
import { useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { appPages } from "#app/app-frame.tsx";
import { operatorPages } from "#operator/operator-pages.ts";
import { projectPages } from "#project/project-frame.tsx";
import { useMay } from "#permissions.ts";
import { appsQuery, askerQuery, becomes, projectsQuery } from "#queries.ts";
import { endSession, isOperator } from "#session.ts";

/** One line of the palette. */
export type Command = {
  readonly key: string;
  readonly name: string;
  /** What it is, or what it belongs to. */
  readonly note: string;
  readonly run: () => void | Promise<void>;
};

/** All commands for where the address is. */
export function useCommands(): readonly Command[] {
  const pages = usePageCommands();
  const actions = useActions();
  const names = useNames();
  return [...pages, ...actions, ...names];
}

/** Pages of the app and of the project that are open. */
export function usePageCommands(): readonly Command[] {
  const { project = "", app } = useParams({ strict: false });
  const navigate = useNavigate();
  const may = useMay(project);
  const asker = useQuery(askerQuery).data;
  const ofApp =
    app === undefined
      ? []
      : appPages.map(([name, to, permission]) => ({
          key: `app ${name}`,
          name,
          note: "this app",
          permission,
          run: () => navigate({ to, params: { project, app } }),
        }));
  const ofProject =
    project === ""
      ? []
      : projectPages.map(([name, to, permission]) => ({
          key: `project ${name}`,
          name,
          note: "this project",
          permission,
          run: () => navigate({ to, params: { project } }),
        }));
  const ofPlatform = isOperator()
    ? operatorPages.map(([name, to]) => ({
        key: `operator ${name}`,
        name: `Operator: ${name}`,
        note: "all projects",
        run: () => navigate({ to }),
      }))
    : [];
  return [
    ...[...ofApp, ...ofProject].filter(({ permission }) => may(permission)),
    ...ofPlatform,
    { key: "home", name: "Projects", note: "page", run: () => navigate({ to: "/" }) },
    ...(asker === "person"
      ? [
          {
            key: "account",
            name: "Your account",
            note: "page",
            run: () => navigate({ to: "/account" }),
          },
        ]
      : []),
  ];
}

function useActions(): readonly Command[] {
  const { project = "" } = useParams({ strict: false });
  const navigate = useNavigate();
  const may = useMay(project);
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme("light") === "dark" ? "light" : "dark";
  const asker = useQuery(askerQuery).data;
  const createProject: Command = {
    key: "new project",
    name: "New project",
    note: "action",
    run: () => navigate({ to: "/projects/new" }),
  };
  const create: Command = {
    key: "new app",
    name: "New app",
    note: "action",
    run: () => navigate({ to: "/projects/$project/new", params: { project } }),
  };
  return [
    ...(project !== "" && may("apps.create") ? [create] : []),
    ...(asker === "person" ? [createProject] : []),
    {
      key: "scheme",
      name: `Show in ${scheme} colours`,
      note: "action",
      run: () => setColorScheme(scheme),
    },
    {
      key: "sign out",
      name: "Sign out",
      note: "action",
      run: async () => {
        await endSession();
        becomes("nobody");
      },
    },
  ];
}

/** Apps and projects, by name. */
function useNames(): readonly Command[] {
  const { project = "" } = useParams({ strict: false });
  const navigate = useNavigate();
  const apps =
    useQuery({ ...appsQuery(project), refetchInterval: false, enabled: project !== "" }).data ?? [];
  const projects = useQuery(projectsQuery).data ?? [];
  return [
    ...apps.map(({ id, name }) => ({
      key: `one app ${id}`,
      name,
      note: "app",
      run: () => navigate({ to: "/projects/$project/apps/$app", params: { project, app: id } }),
    })),
    ...projects
      .filter(({ id }) => id !== project)
      .map(({ id, name }) => ({
        key: `one project ${id}`,
        name,
        note: "project",
        run: () => navigate({ to: "/projects/$project", params: { project: id } }),
      })),
  ];
}
