// What surrounds the pages of a project: links to them, as far as the role allows.
import type { ReactNode } from "react";
import { Outlet, useParams } from "@tanstack/react-router";
import { Tabs, type Tab } from "#parts/tabs.tsx";
import { useMay } from "#permissions.ts";
import { ForSignedIn } from "#shell.tsx";

/** The frame. */
export function ProjectFrame(): ReactNode {
  return (
    <ForSignedIn>
      <Frame />
    </ForSignedIn>
  );
}

/** The pages, with the permission that each one needs. */
export const projectPages = [
  ["Apps", "/projects/$project", "projects.read"],
  ["Volumes", "/projects/$project/volumes", "volumes.read"],
  ["Secrets", "/projects/$project/secrets", "secrets.read"],
  ["Webhooks", "/projects/$project/webhooks", "webhooks.read"],
  ["Members", "/projects/$project/members", "members.read"],
  ["API keys", "/projects/$project/keys", "tokens.read"],
  ["Audit log", "/projects/$project/audit", "audit_log.read"],
  ["Usage", "/projects/$project/usage", "billing.read"],
  ["Billing", "/projects/$project/billing", "billing.read"],
  ["Settings", "/projects/$project/settings", "projects.read"],
] as const;

function Frame(): ReactNode {
  const { project = "" } = useParams({ strict: false });
  const may = useMay(project);
  const tabs: Tab[] = projectPages
    .filter(([, , permission]) => may(permission))
    .map(([name, to]) => ({ name, to, params: { project }, isWhole: name === "Apps" }));
  return (
    <>
      <Tabs label="Project" of={tabs} />
      <Outlet />
    </>
  );
}
