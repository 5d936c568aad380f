// The rules that a machine keeps: who may import whom, how large a file may be, who may read the clock, chance and the
// environment. ARCHITECTURE.md shows the import table; `tidy.test.ts` holds both to each other and to the code.

/** Which areas each area of the server may import. A row names only rows above it, so that areas cannot form a cycle. */
export const importTable = {
  contract: [],
  lib: [],
  store: ["lib"],
  logs: ["lib", "store"],
  drivers: ["contract", "lib"],
  audit: ["contract", "lib", "store"],
  accounts: ["contract", "lib", "store", "audit"],
  people: ["contract", "lib", "store", "audit", "accounts"],
  webhooks: ["contract", "lib", "store", "audit", "accounts"],
  apps: ["contract", "lib", "store", "audit", "accounts"],
  deploy: ["contract", "lib", "store", "logs", "drivers", "audit", "apps"],
  scheduler: ["contract", "lib", "store", "logs", "drivers", "apps", "deploy"],
  proxy: ["contract", "lib", "accounts", "apps", "scheduler"],
  runs: ["contract", "lib", "store", "drivers", "audit", "webhooks", "apps", "scheduler", "proxy"],
  billing: ["contract", "lib", "store", "audit", "accounts", "apps", "scheduler"],
  metrics: ["lib", "store"],
  api: [
    "contract",
    "lib",
    "logs",
    "audit",
    "accounts",
    "webhooks",
    "apps",
    "deploy",
    "scheduler",
    "runs",
    "billing",
    "people",
  ],
} as const satisfies Record<string, readonly string[]>;

/** An area of the server, or the contract. */
export type Area = keyof typeof importTable;

/** The most lines of a file, and of a function from its first to its last line. */
export const sizesMax = { fileLines: 400, functionLines: 70 } as const;

/** Names of files that say nothing about what is inside. */
export const emptyNames = [
  "common",
  "helper",
  "helpers",
  "index",
  "manager",
  "misc",
  "shared",
  "types",
  "util",
  "utils",
];

/** Packages that only these areas may import, so that what they stand for has one border. */
export const packageOwners: Readonly<Record<string, readonly Area[]>> = {
  pg: ["store"],
  fastify: ["api"],
  jose: ["accounts", "audit"],
  "better-auth": ["people"],
  nodemailer: ["people"],
  pino: ["lib"],
  "prom-client": ["metrics"],
};

/** Made by a tool; only their import direction is looked at. */
export const generatedFiles = ["server/src/store/tables.ts"];

/** Who may reach for something that everybody else is handed, and why. `path` ends with / for a whole folder. */
export type Exception = { readonly path: string; readonly reason: string };

/** Who may read process.env. */
export const environmentReaders: readonly Exception[] = [
  { path: "server/src/run-platform.ts", reason: "hands the environment to config.ts" },
];

/** Who may read the clock, set a timer of its own, or call Math.random. */
export const clockReaders: readonly Exception[] = [{ path: "server/src/lib/clock.ts", reason: "is the clock" }];
