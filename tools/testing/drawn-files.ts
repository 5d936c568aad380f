// Groups of test files of which the short form runs some, drawn by a seed: files that prove similar
// things, such as that the commands of a guide work. Files that are in no group always run. A
// change is tested with the files of its area beside it.
import { drawSome } from "@slipway/server/test/support/drawn-cases.ts";

/** Files of `server/test`, without `.test.ts`, and how many of them a short run has. */
type Group = {
  readonly what: string;
  /** No whole platforms: they may share a process with other files. */
  readonly isSmall?: true;
  readonly max: number;
  readonly names: readonly string[];
};

const groups: readonly Group[] = [
  {
    what: "guides",
    max: 1,
    names: words(
      "guide-backup changes-under-load cli-call-refusals guide-tls-proxy guide-web-apps guides-walk",
    ),
  },
  {
    what: "kills under async runs, and kills and long proofs of the audit log",
    max: 1,
    names: words(
      "async-chaos async-crash-points audit-chain-kill audit-chain-verify audit-forwarding-kill audit-log-keeping",
      "audit-walk faults-platform",
    ),
  },
  {
    what: "faults around the platform, load and hostile apps",
    max: 1,
    names: words(
      "callers deploys-under-load drivers-process-disk faults-clients faults-clock faults-database faults-disk",
      "hostile-repositories replica-crashes roll-outs",
    ),
  },
  {
    what: "containers",
    max: 1,
    names: words(
      "docker-build-limits docker-build-network docker-builds-apart docker-engine docker-examples docker-images",
      "docker-kills docker-outage docker-private-repository docker-runtimes drivers-docker drivers-docker-conformance",
      "hostile-container storage-drivers",
    ),
  },
  {
    what: "plans and budgets",
    max: 1,
    names: words("budgets-platform plans-platform plans-scheduler"),
  },
  {
    what: "kills and floods under the scheduler, runs and webhooks",
    max: 1,
    names: words(
      "async-database reclaimed-runs scheduler-pools scheduler-replacing scheduler-restart",
      "webhooks-fairness webhooks-survival",
    ),
  },
  {
    what: "the command line",
    max: 1,
    names: words(
      "cli-call cli-connection cli-deploy cli-dev cli-link cli-package cli-project cli-resources",
      "cli-terminal cli-up",
    ),
  },
  {
    what: "browsers",
    max: 1,
    names: words(
      "dashboard dashboard-app dashboard-looks dashboard-new-app dashboard-operator dashboard-project",
      "dashboard-project-looks dashboard-story dashboard-webhooks hostile-browser pages pages-account pages-docs",
    ),
  },
  {
    what: "networks of apps",
    max: 1,
    names: words("egress egress-platform hostile-app"),
  },
  {
    what: "people and tokens",
    max: 1,
    names: words(
      "people-passwords people-platform people-providers people-sign-in people-two-factor tokens-platforms",
    ),
  },
  {
    what: "processes, locks and restarts",
    max: 1,
    names: words(
      "change-app database-lock drivers-process-exits embedded inherited-descriptors secrets-restart",
      "audit-chain-cli audit-export",
    ),
  },
  {
    what: "long lists, shares and histories",
    max: 2,
    names: words(
      "api-nonsense audit-forwarding deploy-fairness drivers-process-logs held-runs people-device-cookie",
      "rights-at-once runs-api-dead use-history volumes-hostile webhooks-use-cases",
    ),
  },
  {
    what: "rows and chains of the audit log",
    isSmall: true,
    max: 1,
    names: words(
      "audit-chain audit-chain-at-once audit-chain-retention audit-chain-roles audit-log",
    ),
  },
  {
    what: "people, members and their tokens",
    isSmall: true,
    max: 2,
    names: words(
      "accounts device-login members-api members-at-once people-false-tokens people-floods people-sign-in-methods",
      "people-upgrade service-accounts tokens-api",
    ),
  },
  {
    what: "usage, plans and coupons",
    isSmall: true,
    max: 2,
    names: words(
      "budgets budgets-api coupons coupons-ledger coupons-operator plans-api statements usage-api usage-metering",
      "usage-properties",
    ),
  },
  {
    what: "runs and webhooks",
    isSmall: true,
    max: 1,
    names: words(
      "lease runs-api runs-api-cancel runs-api-slow-readers runs-keeping webhooks webhooks-api",
    ),
  },
  {
    what: "repositories and sources",
    isSmall: true,
    max: 1,
    names: words("create-app git-hooks-api git-hosts repositories-api source source-checkouts"),
  },
  {
    what: "builds and deployments",
    max: 1,
    names: words("build build-leftovers deploy deploy-trial"),
  },
  {
    what: "logs",
    isSmall: true,
    max: 1,
    names: words("api-logs cli-logs logs-app logs-build"),
  },
  {
    what: "volumes and uploads",
    isSmall: true,
    max: 1,
    names: words("cli-volumes uploads-limits volume-downloads volumes"),
  },
  {
    what: "what the process driver holds its replicas to",
    max: 1,
    names: words(
      "drivers-process drivers-process-conformance drivers-process-ends drivers-process-hostile drivers-process-limits",
      "drivers-process-networks drivers-process-sandbox",
    ),
  },
  {
    what: "all routes",
    isSmall: true,
    max: 1,
    names: words("api-access-matrix api-fuzz api-limits api-routing-table"),
  },
  {
    what: "whole platforms",
    max: 1,
    names: words(
      "app-deletion app-lifecycle deploy-survival deployments driver-choice examples field-effects",
      "file-runs gpus hardware log-sockets metrics platforms-at-once published-client pushes releases",
      "replica-use restart stop upgrade-data-folder uploads uploads-cancelled usage-platform volumes-platform web-apps",
    ),
  },
];

/** The path of each file of each group. */
export const groupedFiles: readonly string[] = groups.flatMap(({ names }) => names.map(pathOf));

/** Of the groups of whole platforms. */
export const platformFiles: readonly string[] = groups.flatMap(({ isSmall, names }) =>
  isSmall ? [] : names.map(pathOf),
);

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

function words(...lines: readonly string[]): readonly string[] {
  return lines.flatMap((line) => line.split(" "));
}

function pathOf(name: string): string {
  return `server/test/${name}.test.ts`;
}
