// Bodies of the routes of projects, members and invitations, as rows like those of `parameters.ts`.
import type { Field } from "./field.ts";
import { emailField, personNameField } from "./people-fields.ts";
import { roles } from "./words.ts";

const role = (about: string) =>
  ({
    kind: "choice",
    toml: null,
    choices: roles,
    default: null,
    about,
  }) as const satisfies Field;

/** The body of `POST /v2/projects` and of `PATCH /v2/projects/{project_id}`. */
export const projectFields = {
  name: { ...personNameField, about: "What people are shown." },
} as const satisfies Record<string, Field>;

/** The body of `PATCH …/members/{person_id}`. */
export const memberFields = {
  role: role("The member's new role; never more permissions than the caller has."),
} as const satisfies Record<string, Field>;

/** The body of `POST …/invitations`. */
export const invitationFields = {
  email: { ...emailField, about: "The email address to invite; case-insensitive." },
  role: role("The role of the person; never more permissions than the caller has."),
} as const satisfies Record<string, Field>;

/** The body of `POST /v2/auth/invitations/accept`. */
export const acceptFields = {
  token: {
    kind: "text",
    toml: null,
    form: /^[\w-]{1,200}$/,
    allowed: "the last part of an invitation's link",
    default: null,
    isSecret: true,
    about: "The last part of the invitation's link.",
  },
  name: { ...personNameField, defaultAbout: "for people who have no account yet it must be sent" },
  password: {
    kind: "text",
    toml: null,
    form: /^[^\0]{10,1000}$/,
    allowed: "a text of 10 to 1000 characters",
    default: null,
    defaultAbout: "for people who have no account yet it must be sent",
    isSecret: true,
    about: "The password for a person who has no account yet.",
  },
} as const satisfies Record<string, Field>;
