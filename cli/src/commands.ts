// The table of commands. Each is loaded only when it is typed: the platform is large, and the other commands answer at
// once. To add one, write its file and a row here.
import type { Run } from "./command.ts";

/** A command, or a word before several of them. */
export type Entry =
  | { readonly about: string; readonly load: () => Promise<Run> }
  | {
      readonly about: string;
      readonly verbs: Readonly<Record<string, Entry>>;
      /** The verb that is meant when none is typed; without it the help is shown. */
      readonly otherwise?: string;
    };

/** By the word that is typed, in the order of the help. */
export const commands: Readonly<Record<string, Entry>> = {
  start: {
    about: "Start the platform; settings are environment variables.",
    load: async () => (await import("./start.ts")).start,
  },
  login: { about: "Sign in to a platform.", load: async () => (await import("./login.ts")).login },
  logout: { about: "End the sign-in of this machine.", load: async () => (await import("./logout.ts")).logout },
  whoami: { about: "Show who you are, and where.", load: async () => (await import("./whoami.ts")).whoami },
  projects: {
    about: "Show your projects, or choose one.",
    otherwise: "list",
    verbs: {
      list: { about: "Show them; so does no verb.", load: async () => (await import("./projects.ts")).listProjects },
      use: {
        about: "Choose the one that commands are about.",
        load: async () => (await import("./projects-use.ts")).useProject,
      },
    },
  },
  members: {
    about: "Show who belongs to a project, or change it.",
    otherwise: "list",
    verbs: {
      list: { about: "Show them; so does no verb.", load: async () => (await import("./members.ts")).listMembers },
      role: {
        about: "Give a member another role.",
        load: async () => (await import("./members-change.ts")).changeRole,
      },
      remove: {
        about: "End a membership, or withdraw an invitation.",
        load: async () => (await import("./members-change.ts")).removeMember,
      },
    },
  },
  invite: { about: "Invite a person to a project.", load: async () => (await import("./invite.ts")).invite },
  "service-accounts": {
    about: "Tokens for programs that manage a project.",
    verbs: {
      list: {
        about: "Show them, with when each was last used.",
        load: async () => (await import("./service-accounts-list.ts")).listServiceAccounts,
      },
      create: {
        about: "Make one; its token is shown once.",
        load: async () => (await import("./service-accounts-create.ts")).createServiceAccount,
      },
      rotate: {
        about: "Give one a new token; the old one works on for a while.",
        load: async () => (await import("./service-accounts-rotate.ts")).rotateServiceAccount,
      },
      delete: {
        about: "Delete one; its tokens end at once.",
        load: async () => (await import("./service-accounts-delete.ts")).deleteServiceAccount,
      },
    },
  },
  audit: {
    about: "The audit log.",
    verbs: {
      verify: {
        about: "Check an exported audit log, with no platform.",
        load: async () => (await import("./audit-verify.ts")).verifyAudit,
      },
    },
  },
};
