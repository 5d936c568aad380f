// The table of commands. A command is loaded only when it is used: the platform is large, and the
// other commands should start fast. To add a command, write its file and add a row here.
import type { Run } from "./command.ts";

/** The headings of the help, in its order. */
export const topics = [
  "Apps",
  "Calls and runs",
  "Settings of apps",
  "Projects and people",
  "Billing and audit",
  "Platform",
] as const;

type About = {
  readonly about: string;
  /** Where the help lists it; only of first words. */
  readonly topic?: (typeof topics)[number];
  /** It is another name of a command, which the help does not list. */
  readonly isAlias?: true;
};

/** A command, or the first word of several commands. */
export type Entry = About &
  (
    | { readonly load: () => Promise<Run> }
    | {
        readonly verbs: Readonly<Record<string, Entry>>;
        /** The default verb when none is given; without a default, the help is shown. */
        readonly otherwise?: string;
      }
  );

/** The commands of one file, by their verbs. */
function verbsOf<Verb extends string>(
  load: () => Promise<Readonly<Record<Verb, Run>>>,
  abouts: Readonly<Record<Verb, string>>,
): Record<Verb, Entry> {
  const entries = Object.entries<string>(abouts) as [Verb, string][];
  return Object.fromEntries(
    entries.map(([verb, about]) => [verb, { about, load: async () => (await load())[verb] }]),
  ) as Record<Verb, Entry>;
}

const replicas: Entry = {
  about: "List the running replicas of an app.",
  load: async () => (await import("./replicas.ts")).listReplicas,
};

/** By command word, in the order of the help. */
export const commands: Readonly<Record<string, Entry>> = {
  init: {
    topic: "Apps",
    about: "Make a folder deployable: writes slipway.toml, and main.py.",
    load: async () => (await import("./init.ts")).init,
  },
  dev: {
    topic: "Apps",
    about: "Run the app of a folder here, again at each save.",
    load: async () => (await import("./dev.ts")).dev,
  },
  deploy: {
    topic: "Apps",
    about: "Deploy the app of a folder, and follow its build.",
    load: async () => (await import("./deploy.ts")).deploy,
  },
  link: {
    topic: "Apps",
    about: "Bind this folder to a project and an app.",
    load: async () => (await import("./link.ts")).link,
  },
  status: {
    topic: "Apps",
    about: "Show what runs, and what needs attention.",
    load: async () => (await import("./status.ts")).status,
  },
  config: {
    topic: "Settings of apps",
    about: "Check the TOML file of an app.",
    verbs: verbsOf(async () => (await import("./config-check.ts")).config, {
      validate: "Say what is wrong in it, without a platform.",
    }),
  },
  open: {
    topic: "Apps",
    about: "Open the dashboard's page of an app.",
    load: async () => (await import("./open.ts")).open,
  },
  apps: {
    topic: "Apps",
    about: "List, show, scale, change, stop, start and delete apps.",
    otherwise: "list",
    verbs: {
      ...verbsOf(async () => (await import("./apps.ts")).apps, {
        list: "List them (default).",
        show: "Show an app and its settings.",
      }),
      ...verbsOf(async () => (await import("./apps-set.ts")).appsSet, {
        scale: "Change how many replicas it has.",
        set: "Change any of its settings.",
      }),
      ...verbsOf(async () => (await import("./apps-life.ts")).appsLife, {
        restart: "Replace its replicas with new ones.",
        stop: "Stop it: calls are refused until it is started.",
        start: "Start a stopped app.",
        "resume-deploys": "Deploy pushes again, after a rollback has paused that.",
        delete: "Delete it.",
      }),
    },
  },
  logs: {
    topic: "Apps",
    about: "Show what an app prints, or the log of a build; -f follows it live.",
    load: async () => (await import("./logs.ts")).showLogs,
  },
  exec: {
    topic: "Apps",
    about: "Run a command in a replica.",
    load: async () => (await import("./exec.ts")).exec,
  },
  builds: {
    topic: "Apps",
    about: "List, follow, cancel and repeat builds.",
    otherwise: "list",
    verbs: verbsOf(async () => (await import("./builds.ts")).builds, {
      list: "List the builds of an app (default).",
      show: "Show a build, by default the latest.",
      logs: "Show its log; -f follows it until the build ends.",
      start: "Build the newest commit of the branch, or another commit.",
      again: "Build the same commit again.",
      cancel: "Cancel it.",
    }),
  },
  releases: {
    topic: "Apps",
    about: "List and show what was deployed.",
    otherwise: "list",
    verbs: verbsOf(async () => (await import("./releases.ts")).releases, {
      list: "List the releases of an app (default).",
      show: "Show one with its settings.",
    }),
  },
  rollback: {
    topic: "Apps",
    about: "Go back to an earlier release.",
    load: async () => (await import("./rollback.ts")).rollback,
  },
  rollouts: {
    topic: "Apps",
    about: "Show and steer how calls move to a new release.",
    otherwise: "show",
    verbs: verbsOf(async () => (await import("./rollouts.ts")).rollouts, {
      show: "Show the latest one; -f follows it until it ends (default).",
      pause: "Keep the shares of the calls as they are.",
      resume: "Go on.",
      finish: "Give all calls to the new release now.",
      cancel: "Give all calls to the release before.",
    }),
  },
  replicas: { topic: "Apps", ...replicas },
  containers: { isAlias: true, ...replicas },
  call: {
    topic: "Calls and runs",
    about: "Call an app: plain, streamed, or in the background.",
    load: async () => (await import("./call.ts")).callApp,
  },
  runs: {
    topic: "Calls and runs",
    about: "List and show runs, get results, cancel, run again.",
    otherwise: "list",
    verbs: verbsOf(async () => (await import("./runs.ts")).runs, {
      list: "List the runs of an app (default); --dead: those that failed for good.",
      show: "Show one.",
      result: "Print the app's answer.",
      cancel: "Cancel one that has not ended.",
      redrive: "Run a failed one again, or all of them.",
      purge: "Delete the stored requests of failed ones.",
    }),
  },
  webhooks: {
    topic: "Calls and runs",
    about: "Deliveries of answers to webhooks, their secrets and endpoints.",
    verbs: {
      secrets: {
        about: "The secrets that sign deliveries.",
        otherwise: "list",
        verbs: verbsOf(async () => (await import("./webhook-secrets.ts")).webhookSecrets, {
          list: "List the valid ones (default).",
          create: "Create one; the previous one stays valid for a while.",
          delete: "Delete one.",
        }),
      },
      deliveries: {
        about: "What was sent, and what failed.",
        otherwise: "list",
        verbs: verbsOf(async () => (await import("./webhook-deliveries.ts")).webhookDeliveries, {
          list: "List them (default).",
          show: "Show one with its attempts.",
          replay: "Send one again, or all that failed in a time.",
        }),
      },
      endpoints: {
        about: "The URLs that deliveries go to.",
        otherwise: "list",
        verbs: verbsOf(async () => (await import("./webhook-endpoints.ts")).webhookEndpoints, {
          list: "List them (default).",
          pause: "Send nothing there until it is resumed.",
          resume: "Send there again.",
        }),
      },
      schedule: {
        about: "Show or choose how often failed deliveries are retried.",
        load: async () => (await import("./webhook-endpoints.ts")).webhookSchedule,
      },
    },
  },
  secrets: {
    topic: "Settings of apps",
    about: "List, set and remove secrets of a project or an app.",
    otherwise: "list",
    verbs: verbsOf(async () => (await import("./secrets.ts")).secrets, {
      list: "List their names (default).",
      set: "Set some; the others stay.",
      remove: "Remove some.",
    }),
  },
  domains: {
    topic: "Settings of apps",
    about: "Names of its own on which an app answers.",
    otherwise: "list",
    verbs: verbsOf(async () => (await import("./domains.ts")).domains, {
      list: "List them (default).",
      add: "Add one, and see the DNS record to create.",
      check: "Look for its record now.",
      remove: "Remove one.",
    }),
  },
  volumes: {
    topic: "Settings of apps",
    about: "Files that outlive replicas: list, upload, download, remove.",
    otherwise: "list",
    verbs: verbsOf(async () => (await import("./volumes.ts")).volumes, {
      list: "Show the volume of the project (default).",
      ls: "List the files in a folder.",
      upload: "Upload a file or a folder.",
      download: "Download a file.",
      remove: "Remove a file or a folder.",
      resize: "Set how much it may hold.",
    }),
  },
  git: {
    topic: "Settings of apps",
    about: "Credentials for git hosts, and deploying pushes.",
    verbs: {
      credentials: {
        about: "What private repositories are fetched with.",
        otherwise: "list",
        verbs: verbsOf(async () => (await import("./git-credentials.ts")).gitCredentials, {
          list: "List the hosts (default).",
          set: "Set the credential for a host.",
          remove: "Remove it.",
        }),
      },
      hook: {
        about: "The address that a git host sends an app's pushes to.",
        otherwise: "show",
        verbs: verbsOf(async () => (await import("./git-hooks.ts")).gitHook, {
          show: "Show it (default).",
          create: "Make it, or give it a new secret.",
        }),
      },
      deliveries: {
        about: "The pushes that arrived, and what became of them.",
        otherwise: "list",
        verbs: verbsOf(async () => (await import("./git-hooks.ts")).gitDeliveries, {
          list: "List them (default).",
          replay: "Process one again.",
        }),
      },
    },
  },
  projects: {
    topic: "Projects and people",
    about: "List, make, rename and delete projects, or select one.",
    otherwise: "list",
    verbs: verbsOf(async () => (await import("./projects.ts")).projects, {
      list: "List them (default).",
      create: "Make a project.",
      rename: "Rename a project.",
      delete: "Delete a project with all that is in it.",
      use: "Select the project that commands use.",
    }),
  },
  members: {
    topic: "Projects and people",
    about: "List or change the members of a project.",
    otherwise: "list",
    verbs: verbsOf(async () => (await import("./members.ts")).members, {
      list: "List them (default).",
      role: "Change the role of a member.",
      remove: "Remove a member, or withdraw an invitation.",
    }),
  },
  invite: {
    topic: "Projects and people",
    about: "Invite a person to a project.",
    load: async () => (await import("./invite.ts")).invite,
  },
  keys: {
    topic: "Projects and people",
    about: "Tokens for calling apps.",
    otherwise: "list",
    verbs: verbsOf(async () => (await import("./keys.ts")).keys, {
      list: "List them (default).",
      create: "Create one and print it.",
      show: "Print one that is readable.",
      rotate: "Print a new one; the old one stays valid for a while.",
      delete: "Delete one and revoke it immediately.",
    }),
  },
  "service-accounts": {
    topic: "Projects and people",
    about: "Manage tokens for programs such as CI.",
    otherwise: "list",
    verbs: verbsOf(async () => (await import("./service-accounts.ts")).serviceAccounts, {
      list: "List them, with the time of last use (default).",
      create: "Create one; its token is shown only once.",
      rotate: "Create a new token; the old one stays valid for a while.",
      delete: "Delete one and revoke its tokens immediately.",
    }),
  },
  usage: {
    topic: "Billing and audit",
    about: "Show what a project used, by app, day or compute.",
    load: async () => (await import("./usage.ts")).showUsage,
  },
  cost: {
    topic: "Billing and audit",
    about: "Show what a month costs, and what coupons take off.",
    load: async () => (await import("./usage.ts")).showCost,
  },
  budgets: {
    topic: "Billing and audit",
    about: "Show, set and remove monthly budgets.",
    otherwise: "show",
    verbs: verbsOf(async () => (await import("./budgets.ts")).budgets, {
      show: "Show the budget of the project, or of an app (default).",
      set: "Set it.",
      remove: "Remove it.",
    }),
  },
  coupon: {
    topic: "Billing and audit",
    about: "Apply a coupon, and list those that were applied.",
    otherwise: "list",
    verbs: verbsOf(async () => (await import("./coupon.ts")).coupon, {
      list: "List the applied ones (default).",
      apply: "Apply one by its code.",
    }),
  },
  audit: {
    topic: "Billing and audit",
    about: "Read, export and verify the audit log.",
    otherwise: "list",
    verbs: {
      ...verbsOf(async () => (await import("./audit-log.ts")).auditLog, {
        list: "List entries, newest first (default).",
        export: "Export the log to standard output.",
      }),
      verify: {
        about: "Verify an exported audit log without a platform.",
        load: async () => (await import("./audit-verify.ts")).verifyAudit,
      },
    },
  },
  certificates: {
    topic: "Platform",
    about: "See, renew and revoke the TLS certificates that the platform gets by itself.",
    otherwise: "list",
    verbs: verbsOf(async () => (await import("./certificates.ts")).certificates, {
      list: "List them.",
      renew: "Request one now.",
      revoke: "Revoke one, and request another.",
    }),
  },
  up: {
    topic: "Platform",
    about: "Start the platform on this machine in the background.",
    load: async () => (await import("./up.ts")).up,
  },
  down: {
    topic: "Platform",
    about: "Stop the platform on this machine; its data stays.",
    load: async () => (await import("./down.ts")).down,
  },
  backup: {
    topic: "Platform",
    about: "Back up the platform of this machine, while it runs.",
    load: async () => (await import("./backup.ts")).backup,
  },
  restore: {
    topic: "Platform",
    about: "Restore a backup into an empty data folder and database.",
    load: async () => (await import("./backup.ts")).restore,
  },
  restart: {
    topic: "Platform",
    about: "Start it again, such as with a new version; no call is refused.",
    load: async () => (await import("./restart.ts")).restart,
  },
  service: {
    topic: "Platform",
    about: "Let systemd run the platform, from the start of the machine on.",
    verbs: verbsOf(async () => (await import("./service.ts")).service, {
      install: "Install, enable and start the service.",
      remove: "Stop and remove the service; its data stays.",
      print: "Print the unit.",
    }),
  },
  start: {
    topic: "Platform",
    about: "Start the platform in this terminal. It is configured with environment variables.",
    load: async () => (await import("./start.ts")).start,
  },
  doctor: {
    topic: "Platform",
    about: "Check this machine and the platform; says what to do.",
    load: async () => (await import("./doctor.ts")).doctor,
  },
  login: {
    topic: "Platform",
    about: "Sign in to a platform.",
    load: async () => (await import("./login.ts")).login,
  },
  logout: {
    topic: "Platform",
    about: "Sign out on this machine.",
    load: async () => (await import("./logout.ts")).logout,
  },
  whoami: {
    topic: "Platform",
    about: "Show who you are signed in as, and where.",
    load: async () => (await import("./whoami.ts")).whoami,
  },
  completion: {
    topic: "Platform",
    about: "Print a script that completes commands in your shell.",
    load: async () => (await import("./completion.ts")).completionOf(commands),
  },
};
