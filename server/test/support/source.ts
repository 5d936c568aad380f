// A source of builds with a folder of its own, and what its builds logged.
import type { TestContext } from "node:test";
import type { GitCredential } from "#apps/credentials.ts";
import type { SourceRequest } from "#deploy/source.ts";
import { GitSource } from "#deploy/sources/git.ts";
import { cpuSecondsFor, Git } from "#deploy/sources/git-command.ts";
import { systemClock } from "#lib/clock.ts";
import { newBuildId, newProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { OutwardGuard } from "#lib/outward-guard.ts";
import { temporaryFolder } from "./folder.ts";

type Setup = {
  readonly urlTemplate: string;
  readonly otherUrls?: readonly string[];
  readonly credential?: GitCredential;
  readonly bytesMax?: number;
  readonly timeoutMs?: number;
  readonly path?: string;
  /** Private addresses that files of LFS may come from. */
  readonly allow?: readonly string[];
};

type Fetches = ReturnType<SourceRequest["fetchesOf"]>;
type Given = Partial<Omit<SourceRequest, "settings"> & SourceRequest["settings"] & Fetches>;

/**
 * Fetches from the default host `urlTemplate`; `hosts` are those whose credential was looked for.
 */
export function openSource(t: TestContext, setup: Setup) {
  const sourcesDir = temporaryFolder(t, "source");
  const lines: string[] = [];
  const hosts: string[] = [];
  const source = new GitSource({
    git: new Git({
      toolEnvironment: { PATH: setup.path ?? process.env["PATH"] ?? "" },
      cpuSecondsMax: cpuSecondsFor(setup.bytesMax ?? 50_000_000),
    }),
    hosts: { defaultUrl: setup.urlTemplate, otherUrls: setup.otherUrls ?? [] },
    timeoutMs: setup.timeoutMs ?? 30_000,
    bytesMax: setup.bytesMax ?? 50_000_000,
    sourcesDir,
    findCredential: (_projectId, host) => {
      hosts.push(host);
      return Promise.resolve(setup.credential ?? null);
    },
    clock: systemClock,
    log: silentLog,
    guard: new OutwardGuard({ allow: setup.allow ?? [] }),
  });
  const fetch = ({ gitSubmodules = false, gitLfs = false, ...more }: Given = {}) => {
    const { gitRepo = "acme/app", gitBranch = "main", gitPath = "", ...given } = more;
    return source.fetch({
      projectId: newProjectId(),
      buildId: newBuildId(),
      settings: { gitRepo, gitBranch, gitPath },
      isBranchGiven: true,
      checkoutOf: null,
      commit: null,
      log: (_stage, _stream, text) => lines.push(text),
      signal: new AbortController().signal,
      fetchesOf: () => ({ gitSubmodules, gitLfs }),
      ...given,
    });
  };
  return { source, sourcesDir, lines, hosts, fetch };
}
