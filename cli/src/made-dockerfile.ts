// Dockerfiles that `slipway init` writes for apps of Node.js and Go, which the platform runs in
// images only. Reads the folder, and runs nothing of it.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { portIn, sourceFiles, textOf } from "./source-files.ts";

/** A Dockerfile to write, or what to do first. */
export type MadeDockerfile =
  | { readonly framework: string; readonly port: number; readonly text: string }
  | { readonly why: string };

const portByDefault = 8000;

/** For a folder with a `package.json`. `webCommand`: of its Procfile. */
export function nodeDockerfile(folder: string, webCommand: string | null): MadeDockerfile {
  const scripts = scriptsOf(folder);
  const command = nodeCommand({ folder, scripts, webCommand });
  if (command === null) {
    return {
      why: 'package.json has no start script. Add one, such as "start": "node server.js", then: slipway init',
    };
  }
  const texts = sourceFiles(folder, /\.(?:[cm]?js|[cm]?ts)$/).map(
    (path) => textOf(join(folder, path)) ?? "",
  );
  const port = portIn(texts, /\benv\b[^\n]*\bPORT\b/, /\blisten\(\s*(\d{2,5})\b/) ?? portByDefault;
  const [manifests, install] = installerOf(folder);
  const lines = [
    "FROM node:24-slim",
    "WORKDIR /app",
    `COPY ${manifests} ./`,
    `RUN ${install}`,
    "COPY . .",
    ...("build" in scripts ? ["RUN npm run build"] : []),
    `ENV NODE_ENV=production PORT=${port}`,
    `EXPOSE ${port}`,
    `CMD ${JSON.stringify(command)}`,
  ];
  return { framework: "Node.js", port, text: textWith(lines) };
}

type NodeApp = {
  readonly folder: string;
  readonly scripts: Readonly<Record<string, unknown>>;
  readonly webCommand: string | null;
};

/** What starts the app; null: nothing says so. */
function nodeCommand({ folder, scripts, webCommand }: NodeApp): readonly string[] | null {
  if (webCommand !== null) return ["sh", "-c", webCommand];
  if ("start" in scripts) return ["npm", "start"];
  const names = ["server.js", "index.js", "app.js", "main.js"];
  const file = names.find((name) => existsSync(join(folder, name)));
  return file === undefined ? null : ["node", file];
}

/** Writes a Dockerfile for a folder with a `go.mod`. */
export function goDockerfile(folder: string): MadeDockerfile {
  const mains = sourceFiles(folder, /(?<!_test)\.go$/).filter((path) =>
    /^package main$/m.test(textOf(join(folder, path)) ?? ""),
  );
  const packages = [
    ...new Set(
      mains.map((path) => (path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "")),
    ),
  ];
  const [main, other] = packages.includes("") ? [""] : packages;
  if (main === undefined || other !== undefined) {
    const what =
      main === undefined ? "no package main" : `several programs (${packages.join(", ")})`;
    return {
      why: `go.mod is there, but ${what}. Write a Dockerfile that builds and starts one, then: slipway init`,
    };
  }
  const texts = mains.map((path) => textOf(join(folder, path)) ?? "");
  const port = portIn(texts, /Getenv\("PORT"\)/, /"[\w.]*:(\d{2,5})"/) ?? portByDefault;
  const version = /^go (\d+\.\d+)/m.exec(textOf(join(folder, "go.mod")) ?? "")?.[1] ?? "1";
  const lines = [
    `FROM golang:${version} AS build`,
    "WORKDIR /src",
    "COPY . .",
    `RUN CGO_ENABLED=0 go build -o /app ./${main}`,
    "",
    "FROM debian:stable-slim",
    "COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/",
    "COPY --from=build /app /app",
    `ENV PORT=${port}`,
    `EXPOSE ${port}`,
    'CMD ["/app"]',
  ];
  return { framework: "Go", port, text: textWith(lines) };
}

function textWith(lines: readonly string[]): string {
  return `# Written by slipway init.\n${lines.join("\n")}\n`;
}

/** What to copy first, and what installs it. */
function installerOf(folder: string): readonly [string, string] {
  const names = readdirSync(folder);
  if (names.includes("pnpm-lock.yaml")) {
    return ["package.json pnpm-lock.yaml", "corepack enable && pnpm install --frozen-lockfile"];
  }
  if (names.includes("yarn.lock")) {
    return ["package.json yarn.lock", "corepack enable && yarn install --frozen-lockfile"];
  }
  return ["package*.json", names.includes("package-lock.json") ? "npm ci" : "npm install"];
}

function scriptsOf(folder: string): Readonly<Record<string, unknown>> {
  try {
    const { scripts } = JSON.parse(textOf(join(folder, "package.json")) ?? "{}") as {
      scripts?: unknown;
    };
    return typeof scripts === "object" && scripts !== null
      ? (scripts as Readonly<Record<string, unknown>>)
      : {};
  } catch {
    // npm says what is wrong with it.
    return {};
  }
}
