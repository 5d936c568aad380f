// What the data folder of the version before names of the world outside, and the apps in it:
// `make.ts` fills the folder with it, the test has it there again.
import type { FixedAddress } from "#test/support/fixed-address.ts";
import type { GitServer } from "#test/support/git-server.ts";
import type { Json } from "#test/support/management-api.ts";

/**
 * Rows name where deliveries go and where repositories are, so neither may be at any free port. On
 * Linux all of 127/8 is the machine's own.
 */
export const hooksAt: FixedAddress = { host: "127.20.26.11", port: 8026 };
export const gitAt: FixedAddress = { host: "127.20.26.11", port: 8027 };

/** What the git host asks for, and the git credential of the project gives. */
export const gitLogin = { username: "deploys", secret: "git-secret-of-before" } as const;

/** Dollars for a second of a core, so that seconds of a test are worth something. */
export const prices = "[[prices]]\ncpu_core = 1\nmemory_gb = 0\n";

/** Without SLIPWAY_PRICES_FILE. Nothing is removed for its age, which grows with the fixture. */
export const settings: Readonly<Record<string, string>> = {
  SLIPWAY_GIT_URL: `http://${gitAt.host}:${gitAt.port}/{owner}/{repo}.git`,
  SLIPWAY_GIT_POLL_SECONDS: "0",
  SLIPWAY_WEBHOOK_ALLOW: "127.0.0.0/8",
  SLIPWAY_METERING_SECONDS: "1",
  SLIPWAY_RUN_RETENTION_DAYS: "3650",
  SLIPWAY_RESULT_RETENTION_DAYS: "3650",
  SLIPWAY_LOG_RETENTION_DAYS: "3650",
  SLIPWAY_AUDIT_RETENTION_DAYS: "3650",
};

const teller = `import os
import time
from pathlib import Path

kept = Path("/persistent-storage/kept.txt") if Path("/persistent-storage").is_dir() else Path(os.environ["HOME"], "kept.txt")

def run(word="none"):
    print("told", word, flush=True)
    return {"word": word, "secret": os.environ.get("WORD"), "own": os.environ.get("OWN")}

def keep(text):
    kept.write_text(text)

def read_kept():
    return kept.read_text() if kept.exists() else None

def fail():
    raise ValueError("as it was told to")

def hold(seconds):
    time.sleep(seconds)
    return "held"
`;

const web = `import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"path": self.path, "secret": os.environ.get("WORD")}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

ThreadingHTTPServer(("0.0.0.0", int(os.environ["PORT"])), Handler).serve_forever()
`;

const toml = (name: string, more = ""): string => `[cerebrium.deployment]
name = "${name}"
python_version = "3.11"

[cerebrium.hardware]
cpu = 1.0
memory = 0.5

[cerebrium.scaling]
max_replicas = 1
replica_concurrency = 1
cooldown = 2
${more}`;

/** The repositories of the owner `acme`. */
const repositories = {
  teller: { "main.py": teller, "slipway.toml": toml("teller") },
  web: {
    "server.py": web,
    "slipway.toml": toml(
      "web",
      '\n[cerebrium.runtime.custom]\nport = 8080\nentrypoint = ["python", "server.py"]\n',
    ),
  },
} as const;

/** Makes them on a host, each as the same commit whenever that is. */
export async function makeRepositories(git: Pick<GitServer, "createRepo" | "git">): Promise<void> {
  const by = "Test <test@example.com> 1790000000 +0000";
  for (const [name, files] of Object.entries(repositories)) {
    await git.createRepo("acme", name, files);
    const tree = await git.git("acme", name, ["rev-parse", "main^{tree}"]);
    const content = `tree ${tree}\nauthor ${by}\ncommitter ${by}\n\nA change\n`;
    const commit = await git.git(
      "acme",
      name,
      ["hash-object", "-t", "commit", "-w", "--stdin"],
      content,
    );
    await git.git("acme", name, ["update-ref", "refs/heads/main", commit]);
  }
}

/** A person with what a browser of theirs keeps. */
export type Visitor = {
  readonly email: string;
  readonly password: string;
  readonly refreshToken: string;
  /** `slipway_session=…`, then `slipway_device=…`. */
  readonly cookies: readonly string[];
};

/** A page of a list, and what was on the one that its token led to. */
export type Page = {
  readonly path: string;
  readonly token: string;
  readonly next: readonly string[];
};

/** What the version before gave out and answered; `facts.json`. */
export type Facts = {
  /** Commit of that version. */
  readonly commit: string;
  readonly owner: Visitor;
  readonly member: Visitor;
  readonly serviceAccount: string;
  readonly revokedServiceAccount: string;
  readonly inference: string;
  readonly revokedInference: string;
  readonly webhookSecret: string;
  readonly callerSecret: string;
  readonly runs: Readonly<
    Record<
      "done" | "dead" | "redriven" | "cancelled" | "running" | "waiting" | "undelivered",
      string
    >
  >;
  /** Path → body, just before the platform was killed. */
  readonly answers: Readonly<Record<string, Json>>;
  readonly pages: readonly Page[];
};
