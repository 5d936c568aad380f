// Groups of test files of which the short form runs some, drawn by a seed: whole platforms that prove similar things, such as that
// the commands of a guide work. Files that are in no group always run; every part of the product has tests there.
import { drawSome } from "@slipway/server/test/support/drawn-cases.ts";

/** Files of `server/test`, without `.test.ts`, and how many of them a short run has. */
type Group = { readonly what: string; readonly max: number; readonly names: readonly string[] };

const groups: readonly Group[] = [
  {
    what: "guides",
    max: 2,
    names: [
      ...["guide-async", "guide-audit-log", "guide-backup", "guide-billing", "guide-changing", "guide-command-line"],
      ...[
        "guide-deploying",
        "guide-first-app",
        "guide-people",
        "guide-releases",
        "guide-roll-outs",
        "guide-scaling",
        "guide-storage",
        "guide-tls-proxy",
      ],
    ],
  },
  { what: "kills under async runs", max: 1, names: ["async-chaos", "async-crash-points", "faults-platform"] },
  { what: "kills under the audit log", max: 1, names: ["audit-chain-kill", "audit-forwarding-kill"] },
  {
    what: "faults around the platform",
    max: 2,
    names: ["faults-clients", "faults-clock", "faults-database", "faults-disk"],
  },
  { what: "releases under load", max: 1, names: ["deploys-under-load", "roll-outs"] },
  {
    what: "containers",
    max: 2,
    names: [
      ...["docker-build-limits", "docker-build-network", "docker-builds-apart", "docker-examples", "docker-images"],
      ...["docker-kills", "docker-outage", "docker-runtimes", "drivers-docker", "drivers-docker-conformance"],
      ...["hostile-container", "storage-drivers"],
    ],
  },
  { what: "plans and budgets", max: 1, names: ["budgets-platform", "plans-platform", "plans-scheduler"] },
  { what: "kills under the scheduler and webhooks", max: 1, names: ["scheduler-restart", "webhooks-survival"] },
  {
    what: "the command line",
    max: 2,
    names: [
      ...["cli-call", "cli-deploy", "cli-dev", "cli-link", "cli-package", "cli-project", "cli-resources"],
      ...["cli-terminal", "cli-up"],
    ],
  },
  { what: "browsers", max: 1, names: ["dashboard", "hostile-browser", "pages", "pages-account", "pages-docs"] },
  { what: "networks of apps", max: 1, names: ["egress", "egress-platform", "hostile-app"] },
  {
    what: "whole platforms",
    max: 3,
    names: [
      ...[
        "app-deletion",
        "audit-log-keeping",
        "audit-walk",
        "deploy-survival",
        "deployments",
        "driver-choice",
        "examples",
      ],
      ...[
        "field-effects",
        "gpus",
        "guide-compute",
        "log-sockets",
        "metrics",
        "published-client",
        "pushes",
        "reclaimed-runs",
        "replica-use",
      ],
      ...["restart", "scheduler-pools", "upgrade-data-folder", "usage-platform", "volumes-platform", "web-apps"],
    ],
  },
];

/** The path of each file of each group. */
export const groupedFiles: readonly string[] = groups.flatMap(({ names }) => names.map(pathOf));

/** The files without those that are not drawn, and a line for each group. */
export function drawFiles(
  files: readonly string[],
  seed: number,
): { readonly files: readonly string[]; readonly lines: readonly string[] } {
  const leftOut = new Set<string>();
  const lines = groups.map(({ what, max, names }) => {
    const drawn = drawSome(names, { seed, max, kindOf: () => "" });
    for (const name of names) if (!drawn.includes(name)) leftOut.add(pathOf(name));
    return `ℹ short form: ${drawn.join(", ")} of ${names.length} files with ${what}; the same with SLIPWAY_TEST_SEED=${seed}`;
  });
  return { files: files.filter((file) => !leftOut.has(file)), lines };
}

function pathOf(name: string): string {
  return `server/test/${name}.test.ts`;
}
