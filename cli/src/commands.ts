// The table of commands. A command is loaded only when it is used: the platform is large, and the other commands should
// start fast. To add a command, write its file and add a row here.
import type { Run } from "./command.ts";

/** The headings of the help, in its order. */
export const topics = ["Apps", "Projects and people", "Money and records", "Platform"] as const;

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
  apps: {
    topic: "Apps",
    about: "List and show apps.",
    otherwise: "list",
    verbs: {
      ...verbsOf(async () => (await import("./apps.ts")).apps, {
        list: "List them (default).",
        show: "Show an app and its settings.",
      }),
    },
  },
  logs: {
    topic: "Apps",
    about: "Show what an app prints, or the log of a build; -f follows it live.",
    load: async () => (await import("./logs.ts")).showLogs,
  },
  projects: {
    topic: "Projects and people",
    about: "List your projects, or select one.",
    otherwise: "list",
    verbs: verbsOf(async () => (await import("./projects.ts")).projects, {
      list: "List them (default).",
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
  "service-accounts": {
    topic: "Projects and people",
    about: "Manage tokens for programs such as CI.",
    verbs: verbsOf(async () => (await import("./service-accounts.ts")).serviceAccounts, {
      list: "List them, with the time of last use.",
      create: "Create one; its token is shown only once.",
      rotate: "Create a new token; the old one stays valid for a while.",
      delete: "Delete one and revoke its tokens immediately.",
    }),
  },
  audit: {
    topic: "Money and records",
    about: "Work with the audit log.",
    verbs: {
      verify: {
        about: "Verify an exported audit log without a platform.",
        load: async () => (await import("./audit-verify.ts")).verifyAudit,
      },
    },
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
  login: { topic: "Platform", about: "Sign in to a platform.", load: async () => (await import("./login.ts")).login },
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
};
