// The shapes of the answers of projects, members and invitations.
import { z } from "zod";
import { roles } from "./words.ts";

const time = z.iso.datetime();
const role = z.enum(roles);

/** `role`: the caller's; null for operators, and for service accounts whose permissions were chosen one by one. */
export const projectDetail = z.strictObject({
  id: z.string(),
  name: z.string(),
  role: role.nullable(),
  createdAt: time,
});

export const member = z.strictObject({
  personId: z.uuid(),
  email: z.string(),
  name: z.string(),
  role,
  createdAt: time,
});

export const memberList = z.array(member);

export const invitation = z.strictObject({
  id: z.uuid(),
  email: z.string(),
  role,
  /** Who made it: a person's or a token's name. */
  invitedBy: z.string().nullable(),
  createdAt: time,
  expiresAt: time,
});

export const invitationList = z.array(invitation);

/** The only answer that holds the link; `isMailed`: it was sent to the address too. */
export const newInvitation = invitation.extend({ link: z.url(), isMailed: z.boolean() });

/** What whoever has the link may know. */
export const openInvitation = z.strictObject({
  projectId: z.string(),
  projectName: z.string(),
  email: z.string(),
  role,
  invitedBy: z.string().nullable(),
  expiresAt: time,
  /** True: accepting it takes that person's own token. */
  hasAccount: z.boolean(),
});

export const acceptedInvitation = z.strictObject({
  projectId: z.string(),
  projectName: z.string(),
  personId: z.uuid(),
  email: z.string(),
  role,
});
