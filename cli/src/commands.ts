// The table of commands. A command is loaded only when it is used: the platform is large, and the other commands should
// start fast. To add a command, write its file and add a row here.
import type { Run } from "./command.ts";

/** A command, or the first word of several commands. */
export type Entry =
  | { readonly about: string; readonly load: () => Promise<Run> }
  | {
      readonly about: string;
      readonly verbs: Readonly<Record<string, Entry>>;
      /** The default verb when none is given; without a default, the help is shown. */
      readonly otherwise?: string;
    };

/** By command word, in the order of the help. */
export const commands: Readonly<Record<string, Entry>> = {
  up: {
    about: "Start the platform on this machine in the background.",
    load: async () => (await import("./up.ts")).up,
  },
  down: {
    about: "Stop the platform on this machine; its data stays.",
    load: async () => (await import("./down.ts")).down,
  },
  start: {
    about: "Start the platform in this terminal. It is configured with environment variables.",
    load: async () => (await import("./start.ts")).start,
  },
  doctor: {
    about: "Check this machine and the platform; says what to do.",
    load: async () => (await import("./doctor.ts")).doctor,
  },
  init: {
    about: "Make a folder deployable: writes slipway.toml, and main.py.",
    load: async () => (await import("./init.ts")).init,
  },
  dev: {
    about: "Run the app of a folder here, again at each save.",
    load: async () => (await import("./dev.ts")).dev,
  },
  deploy: {
    about: "Deploy the app of a folder, and follow its build.",
    load: async () => (await import("./deploy.ts")).deploy,
  },
  login: { about: "Sign in to a platform.", load: async () => (await import("./login.ts")).login },
  logout: { about: "Sign out on this machine.", load: async () => (await import("./logout.ts")).logout },
  whoami: {
    about: "Show who you are signed in as, and where.",
    load: async () => (await import("./whoami.ts")).whoami,
  },
  projects: {
    about: "List your projects, or select one.",
    otherwise: "list",
    verbs: {
      list: { about: "List them (default).", load: async () => (await import("./projects.ts")).listProjects },
      use: {
        about: "Select the project that commands use.",
        load: async () => (await import("./projects-use.ts")).useProject,
      },
    },
  },
  apps: { about: "List the apps of a project.", load: async () => (await import("./apps.ts")).listApps },
  logs: {
    about: "Show what an app prints; -f follows it live.",
    load: async () => (await import("./logs.ts")).showLogs,
  },
  members: {
    about: "List or change the members of a project.",
    otherwise: "list",
    verbs: {
      list: { about: "List them (default).", load: async () => (await import("./members.ts")).listMembers },
      role: {
        about: "Change the role of a member.",
        load: async () => (await import("./members-change.ts")).changeRole,
      },
      remove: {
        about: "Remove a member, or withdraw an invitation.",
        load: async () => (await import("./members-change.ts")).removeMember,
      },
    },
  },
  invite: { about: "Invite a person to a project.", load: async () => (await import("./invite.ts")).invite },
  "service-accounts": {
    about: "Manage tokens for programs such as CI.",
    verbs: {
      list: {
        about: "List them, with the time of last use.",
        load: async () => (await import("./service-accounts-list.ts")).listServiceAccounts,
      },
      create: {
        about: "Create one; its token is shown only once.",
        load: async () => (await import("./service-accounts-create.ts")).createServiceAccount,
      },
      rotate: {
        about: "Create a new token; the old one stays valid for a while.",
        load: async () => (await import("./service-accounts-rotate.ts")).rotateServiceAccount,
      },
      delete: {
        about: "Delete one and revoke its tokens immediately.",
        load: async () => (await import("./service-accounts-delete.ts")).deleteServiceAccount,
      },
    },
  },
  audit: {
    about: "Work with the audit log.",
    verbs: {
      verify: {
        about: "Verify an exported audit log without a platform.",
        load: async () => (await import("./audit-verify.ts")).verifyAudit,
      },
    },
  },
};
