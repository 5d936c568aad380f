// The shapes of the answers of projects, members and invitations.
import { z } from "zod";
import { roles } from "./words.ts";

const time = z.iso.datetime();
const role = z.enum(roles);

/**
 * `role`: the caller's role; null for operators and for service accounts with individually chosen
 * permissions.
 */
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
  /** The name of the person or token that created it. */
  invitedBy: z.string().nullable(),
  createdAt: time,
  expiresAt: time,
});

export const invitationList = z.array(invitation);

/** The only answer that contains the link; `isMailed`: the link was also mailed to the address. */
export const newInvitation = invitation.extend({ link: z.url(), isMailed: z.boolean() });

/** What anybody who has the link may see. */
export const openInvitation = z.strictObject({
  projectId: z.string(),
  projectName: z.string(),
  email: z.string(),
  role,
  invitedBy: z.string().nullable(),
  expiresAt: time,
  /** True: that person must accept with their own token. */
  hasAccount: z.boolean(),
});

export const acceptedInvitation = z.strictObject({
  projectId: z.string(),
  projectName: z.string(),
  personId: z.uuid(),
  email: z.string(),
  role,
});
