// The pages by address. What is seldom opened is loaded when it is opened; filters are part of the
// address, so that a link to a page shows the same.
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
} from "@tanstack/react-router";
import { ForgotPage, ResetPage } from "./account/password-pages.tsx";
import { AppFrame } from "./app/app-frame.tsx";
import { OverviewPage } from "./app/overview-page.tsx";
import { SearchButton } from "./palette/search-button.tsx";
import { Waiting } from "./parts/show.tsx";
import { AppsPage } from "./project/apps-page.tsx";
import { HomePage } from "./project/home-page.tsx";
import { ProjectFrame } from "./project/project-frame.tsx";
import { ForSignedIn, NothingHere, Shell } from "./shell.tsx";

/** The texts of the address behind the question mark that a page knows; empty ones are left out. */
function texts<const Names extends readonly string[]>(names: Names) {
  return (search: Record<string, unknown>): { [Name in Names[number]]?: string } => {
    const known = names.flatMap((name) => {
      const value = search[name];
      // The router reads digits as a number.
      const isText = typeof value === "string" || typeof value === "number";
      return isText && value !== "" ? [[name, String(value)] as const] : [];
    });
    return Object.fromEntries(known) as { [Name in Names[number]]?: string };
  };
}

const account = () => import("./account/account-page.tsx");
const device = () => import("./account/device-page.tsx");
const invitation = () => import("./account/invitation-page.tsx");

const root = createRootRoute({
  component: () => <Shell search={<SearchButton />} />,
  notFoundComponent: NothingHere,
});

const AccountPage = lazyRouteComponent(account, "AccountPage");
const NewProjectPage = lazyRouteComponent(
  () => import("./project/new-project.tsx"),
  "NewProjectPage",
);
const DevicePage = lazyRouteComponent(device, "DevicePage");

const openPages = [
  createRoute({
    getParentRoute: () => root,
    path: "/",
    component: () => (
      <ForSignedIn>
        <HomePage />
      </ForSignedIn>
    ),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/account",
    component: () => (
      <ForSignedIn isForPeople>
        <AccountPage />
      </ForSignedIn>
    ),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/projects/new",
    component: () => (
      <ForSignedIn isForPeople>
        <NewProjectPage />
      </ForSignedIn>
    ),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/device",
    validateSearch: texts(["code"]),
    component: () => (
      <ForSignedIn isForPeople>
        <DevicePage />
      </ForSignedIn>
    ),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/invitations/$secret",
    component: lazyRouteComponent(invitation, "InvitationPage"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/forgot-password",
    component: ForgotPage,
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/reset-password/$secret",
    component: ResetPage,
  }),
] as const;

const project = createRoute({
  getParentRoute: () => root,
  path: "/projects/$project",
  component: ProjectFrame,
});

const projectPages = [
  createRoute({ getParentRoute: () => project, path: "/", component: AppsPage }),
  createRoute({
    getParentRoute: () => project,
    path: "/new",
    validateSearch: texts(["repo", "branch", "path", "name"]),
    component: lazyRouteComponent(() => import("./new-app/new-app-page.tsx"), "NewAppPage"),
  }),
  createRoute({
    getParentRoute: () => project,
    path: "/keys",
    component: lazyRouteComponent(() => import("./project/keys-page.tsx"), "KeysPage"),
  }),
  createRoute({
    getParentRoute: () => project,
    path: "/audit",
    validateSearch: texts(["action", "outcome", "actor", "page"]),
    component: lazyRouteComponent(() => import("./project/audit-page.tsx"), "AuditPage"),
  }),
  createRoute({
    getParentRoute: () => project,
    path: "/usage",
    validateSearch: texts(["by"]),
    component: lazyRouteComponent(() => import("./project/usage-page.tsx"), "UsagePage"),
  }),
  createRoute({
    getParentRoute: () => project,
    path: "/members",
    component: lazyRouteComponent(() => import("./project/members-page.tsx"), "MembersPage"),
  }),
  createRoute({
    getParentRoute: () => project,
    path: "/volumes",
    validateSearch: texts(["dir", "after"]),
    component: lazyRouteComponent(() => import("./project/volumes-page.tsx"), "VolumesPage"),
  }),
  createRoute({
    getParentRoute: () => project,
    path: "/secrets",
    component: lazyRouteComponent(() => import("./project/secrets-page.tsx"), "SecretsPage"),
  }),
  createRoute({
    getParentRoute: () => project,
    path: "/webhooks",
    validateSearch: texts(["state", "endpoint", "run", "page", "delivery", "endpoints"]),
    component: lazyRouteComponent(() => import("./project/webhooks-page.tsx"), "WebhooksPage"),
  }),
  createRoute({
    getParentRoute: () => project,
    path: "/billing",
    validateSearch: texts(["app", "month"]),
    component: lazyRouteComponent(() => import("./project/billing-page.tsx"), "BillingPage"),
  }),
  createRoute({
    getParentRoute: () => project,
    path: "/settings",
    component: lazyRouteComponent(() => import("./project/settings-page.tsx"), "SettingsPage"),
  }),
] as const;

const app = createRoute({
  getParentRoute: () => root,
  path: "/projects/$project/apps/$app",
  component: AppFrame,
});

const appPages = [
  createRoute({
    getParentRoute: () => app,
    path: "/",
    validateSearch: texts(["range"]),
    component: OverviewPage,
  }),
  createRoute({
    getParentRoute: () => app,
    path: "/builds",
    component: lazyRouteComponent(() => import("./app/builds-page.tsx"), "BuildsPage"),
  }),
  createRoute({
    getParentRoute: () => app,
    path: "/builds/$build",
    validateSearch: texts(["search"]),
    component: lazyRouteComponent(() => import("./app/build-page.tsx"), "BuildPage"),
  }),
  createRoute({
    getParentRoute: () => app,
    path: "/logs",
    validateSearch: texts(["search", "run", "replica", "stream"]),
    component: lazyRouteComponent(() => import("./app/logs-page.tsx"), "LogsPage"),
  }),
  createRoute({
    getParentRoute: () => app,
    path: "/runs",
    validateSearch: texts(["status", "only", "page", "run"]),
    component: lazyRouteComponent(() => import("./app/runs-page.tsx"), "RunsPage"),
  }),
  createRoute({
    getParentRoute: () => app,
    path: "/releases",
    validateSearch: texts(["from", "to"]),
    component: lazyRouteComponent(() => import("./app/releases-page.tsx"), "ReleasesPage"),
  }),
  createRoute({
    getParentRoute: () => app,
    path: "/replicas",
    validateSearch: texts(["range"]),
    component: lazyRouteComponent(() => import("./app/replicas-page.tsx"), "ReplicasPage"),
  }),
  createRoute({
    getParentRoute: () => app,
    path: "/domains",
    component: lazyRouteComponent(() => import("./app/domains-page.tsx"), "DomainsPage"),
  }),
  createRoute({
    getParentRoute: () => app,
    path: "/git",
    validateSearch: texts(["page"]),
    component: lazyRouteComponent(() => import("./app/git-page.tsx"), "GitPage"),
  }),
  createRoute({
    getParentRoute: () => app,
    path: "/settings",
    validateSearch: texts(["search"]),
    component: lazyRouteComponent(() => import("./app/settings-page.tsx"), "SettingsPage"),
  }),
  createRoute({
    getParentRoute: () => app,
    path: "/secrets",
    component: lazyRouteComponent(() => import("./app/secrets-page.tsx"), "SecretsPage"),
  }),
  createRoute({
    getParentRoute: () => app,
    path: "/danger",
    component: lazyRouteComponent(() => import("./app/danger-page.tsx"), "DangerPage"),
  }),
] as const;

const operator = createRoute({
  getParentRoute: () => root,
  path: "/operator",
  component: lazyRouteComponent(() => import("./operator/operator-frame.tsx"), "OperatorFrame"),
});

const operatorRoutes = [
  createRoute({
    getParentRoute: () => operator,
    path: "/",
    validateSearch: texts(["search", "page"]),
    component: lazyRouteComponent(
      () => import("./operator/operator-projects-page.tsx"),
      "OperatorProjectsPage",
    ),
  }),
  createRoute({
    getParentRoute: () => operator,
    path: "/coupons",
    validateSearch: texts(["page"]),
    component: lazyRouteComponent(() => import("./operator/coupons-page.tsx"), "CouponsPage"),
  }),
  createRoute({
    getParentRoute: () => operator,
    path: "/tokens",
    component: lazyRouteComponent(
      () => import("./operator/operator-tokens-page.tsx"),
      "OperatorTokensPage",
    ),
  }),
  createRoute({
    getParentRoute: () => operator,
    path: "/people",
    component: lazyRouteComponent(() => import("./operator/people-page.tsx"), "PeoplePage"),
  }),
  createRoute({
    getParentRoute: () => operator,
    path: "/certificates",
    validateSearch: texts(["page"]),
    component: lazyRouteComponent(
      () => import("./operator/certificates-page.tsx"),
      "CertificatesPage",
    ),
  }),
  createRoute({
    getParentRoute: () => operator,
    path: "/platform",
    component: lazyRouteComponent(() => import("./operator/platform-page.tsx"), "PlatformPage"),
  }),
] as const;

/** All pages. */
export const router = createRouter({
  routeTree: root.addChildren([
    ...openPages,
    project.addChildren(projectPages),
    app.addChildren(appPages),
    operator.addChildren(operatorRoutes),
  ]),
  basepath: "/dashboard",
  defaultPreload: "intent",
  defaultPendingComponent: Waiting,
  defaultNotFoundComponent: NothingHere,
  defaultStructuralSharing: true,
  trailingSlash: "never",
});

declare module "@tanstack/react-router" {
  // Links and filters are checked against the addresses of this router.
  interface Register {
    router: typeof router;
  }
}
