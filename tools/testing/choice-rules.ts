// Which tests a change concerns that no import leads to: tests that start the platform, the command
// line or a container as a process, and tests of files that are not TypeScript. Each row names
// files of the project and the tests of `server/test` that they concern.

/** The files whose imports are followed. */
export const sourceFiles = "{contract,client,server,cli,tools,dashboard}/**/*.{ts,tsx,mjs}";

/** Paths that match `changed` concern the tests of `server/test` whose names match `tests`. */
export type Rule = { readonly changed: RegExp; readonly tests: RegExp };

/** Every row that matches a changed file counts. */
export const rules: readonly Rule[] = [
  ...areaRules({
    accounts: /^(tokens-|audit-walk|secrets-restart|cli-call-refusals)/,
    acme: /^(acme-|dashboard-certificates)/,
    api: /^(interface|compressed-answers|field-effects|audit-walk|log-sockets|exec$)/,
    apps: /^(app-|change-app|shared-folder-pushes|field-effects|use-history)/,
    audit: /^audit-/,
    backups: /^(backup-|guide-backup)/,
    billing: /^(budgets-|plans-|usage-)/,
    deploy: /^(deploy|tag-deploys|uploads-cancelled|git-hosts|changes-under-load|docker-builds?-)/,
    domains: /^domains-/,
    drivers: /^(driver-choice|examples|exec$|stop|storage-drivers|app-storage|inherited-descr)/,
    "drivers/disk": /^(app-storage|docker-app-storage|volumes-platform)/,
    "drivers/docker": /^(docker-|drivers-docker|egress|hostile-container|driver-choice)/,
    "drivers/pools": /^(gpus|hardware)/,
    "drivers/process":
      /^(drivers-process|hostile-app|egress|prepared-sandboxes|faults-disk|zygotes)/,
    lib: /^(stop|restart|faults-platform|faults-clock)/,
    logs: /^(log-sockets|logs-|run-reasons)/,
    metrics: /^(metrics|replica-use)/,
    people: /^people-/,
    proxy:
      /^(callers|web-apps|restart-|roll-outs|log-sockets|changes-under-load|faults-clients|guide-tls|tls-)/,
    pushes: /^(pushes|tag-deploys|git-hooks-api|shared-folder-pushes)/,
    runs: /^(async-|reclaimed-runs|run-reasons|runs-wait|file-runs)/,
    scheduler: /^(scheduler|replica-|platforms-at|plans-|gpus|hardware|roll-outs|callers|zygotes)/,
    store: /^(restart|upgrade-data-folder|database|embedded|faults-database|faults-disk|secrets-r)/,
    volumes: /^(volumes-platform|app-storage|docker-app-storage|storage-drivers)/,
    webhooks: /^(webhooks-|dashboard-webhooks)/,
  }),
  // What assembles the platform.
  { changed: /^server\/src\/[^/]+\.ts$/, tests: /^(restart|stop|interface|metrics|driver-choice)/ },
  { changed: /^(contract|client)\//, tests: /^(interface|published-client|cli-whole-platform)/ },
  { changed: /^cli\//, tests: /^(cli-|exec$|npm-start|upgrade-data|audit-chain-cli|service-)/ },
  { changed: /^tools\/pack/, tests: /^(cli-package|platform-package|service-)/ },
  // Skips itself without SLIPWAY_TEST_IMAGE.
  { changed: /^(packaging\/image|tools\/image)/, tests: /^image$/ },
  { changed: /^server\/src\/(backup-main|store\/(database-copy|reach-))/, tests: /^backup-/ },
  {
    changed: /^(server\/src\/store\/postgres\/|cli\/src\/installation)/,
    tests: /^platform-package/,
  },
  { changed: /^dashboard\/src\/project\//, tests: /^dashboard-(project|story|webhooks)/ },
  {
    changed: /^dashboard\/src\/app\//,
    tests: /^dashboard(-app|-certificates|-domains|-looks|-story)?$/,
  },
  { changed: /^dashboard\/src\/new-app\//, tests: /^dashboard-(new-app|story)/ },
  { changed: /^dashboard\/src\/operator\//, tests: /^dashboard-(certificates|operator)/ },
  { changed: /^dashboard\/src\/account\//, tests: /^(pages-account|dashboard-story)/ },
  {
    changed: /^dashboard\/(src\/(parts|palette)\/|src\/[^/]+$|[^/]+$|build\/|public\/)/,
    tests: /^(dashboard|pages|hostile-browser)/,
  },
  { changed: /^server\/src\/api\/pages\//, tests: /^pages/ },
  // Read while the tests run.
  { changed: /^server\/src\/store\/(migrations\/|schema\.sql)/, tests: /^(guide-backup|runs-upg)/ },
  {
    changed: /^runtimes\/python\//,
    tests:
      /^(examples|exec|file-runs|held-runs|web-apps|published-client|drivers-process|docker-r|zygotes)/,
  },
  { changed: /^runtimes\/python\//, tests: /^(hostile-app|interface|roll-outs|build-python)/ },
  { changed: /^examples\//, tests: /^(examples|docker-examples|guides-walk|published-client)/ },
  { changed: /^(README\.md|docs\/guides\/)/, tests: /^guides-walk/ },
  { changed: /^docs\/guides\/(backup|upgrading|secrets)/, tests: /^guide-backup/ },
  { changed: /^docs\/guides\/(deploying|roll-outs)/, tests: /^changes-under-load/ },
  { changed: /^docs\/guides\/web-apps/, tests: /^guide-web-apps/ },
  { changed: /^docs\/guides\/(behind-a-tls|domains-and-tls)/, tests: /^guide-tls-proxy/ },
  { changed: /^docs\/guides\/command-line/, tests: /^(cli-call-refusals|cli-plain-output)/ },
  { changed: /^server\/test\/old-folder\//, tests: /^upgrade-data-folder/ },
  { changed: /^server\/test\/support\/driver-runtime\//, tests: /^drivers-/ },
  { changed: /^server\/test\/support\/hostile-app\//, tests: /^hostile-(app|container)/ },
];

/** Files that are as good as a change to the files beside them, which read them. */
export const readers: readonly { readonly changed: RegExp; readonly reader: string }[] = [
  { changed: /^server\/src\/store\/migrations\//, reader: "server/src/store/migrate.ts" },
  { changed: /^server\/src\/api\/pages\//, reader: "server/src/api/pages.ts" },
];

/** All tests rest on these. */
export const foundation = /^(package(-lock)?\.json|\.npmrc|(server|contract)\/package\.json)$/;

/** These concern no test beyond what always runs; the checks look at most of them. */
export const untested: readonly RegExp[] = [
  /^(\.gitignore|\.ox\w+\.json|knip\.jsonc|tsconfig\.json|LICENSE|[A-Z]+\.md|\.ci\/|changes\/)/,
  /^docs\/(decisions\/|pictures\/|interfaces\.md|terminal\.svg|guides\/scaling-curves\.svg)/,
  /^(tools|cli|client)\/package\.json$/,
  // Used by hand, or by the runner itself.
  /^tools\/(bench\/|[\w-]+\.(ts|mjs)$|testing\/|setup\/|lock\/|tidy\/tidy\.ts$)/,
  /^server\/sim\/(series|runs\/(run-seeds|own-database))\.ts$/,
  /^server\/sim\/scheduler\/(compare|run-seed|scaling-section|world-options)\.ts$/,
  /^server\/test\/(old-folder\/make|readme-pictures|support\/pip-seed)\.ts$/,
];

/** These run whatever has changed: they list what is there, and compare it with what is said. */
export const always: readonly string[] = [
  "tools/documents.test.ts",
  "tools/tidy/tidy.test.ts",
  "cli/src/main.test.ts",
  "server/src/config.test.ts",
  "server/test/api.test.ts",
  "server/test/interface.test.ts",
];

function areaRules(tests: Readonly<Record<string, RegExp>>): Rule[] {
  return Object.entries(tests).map(([area, names]) => {
    return { changed: new RegExp(`^server/src/${area}/`), tests: names };
  });
}
