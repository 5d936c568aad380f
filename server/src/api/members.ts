// Route handlers for members of projects, and for invitations, which members create and invited
// people accept.
import type { z } from "zod";
import type * as answers from "@slipway/contract/project-answers.ts";
import type { Sent } from "@slipway/contract/route.ts";
import type { Role } from "@slipway/contract/words.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import { perMinute, RateLimit } from "#lib/rate-limit.ts";
import { Secret } from "#lib/secret.ts";
import type { CreatedInvitation, Invitation } from "#people/invitation-use-cases.ts";
import type { Mail } from "#people/mailer.ts";
import type { Member } from "#people/member-store.ts";
import { authenticate } from "./access.ts";
import { bodyOf, callerOf, idOf, partOf, projectOf, type ApiCall, type Handlers } from "./call.ts";
import { invitationPage } from "./urls.ts";
import type { HandlerParts } from "./parts.ts";
import { requesterOf } from "./token-answers.ts";

/**
 * The maximum for a project, and also for a caller in all projects together. Nobody types more in a
 * minute, and each invitation may be unsolicited mail.
 */
const invitationsPerMinute = 30;

/** Route handlers for members. */
export function memberHandlers({ membership: { members } }: HandlerParts) {
  return {
    async listMembers(call) {
      return (await members.list(projectOf(call))).map(showMember);
    },
    async updateMember(call) {
      const { role } = bodyOf(call);
      return showMember(await members.changeRole(memberOf(call), role as Role, requesterOf(call)));
    },
    async removeMember(call) {
      await members.remove(memberOf(call), requesterOf(call));
      return { message: "The person is no longer a member of the project." };
    },
    async leaveProject(call) {
      const caller = callerOf(call);
      if (caller.kind !== "person")
        throw new Fault("forbidden", "Only people can be members of projects.");
      await members.leave({ projectId: projectOf(call), personId: caller.personId }, call.by);
      return { message: "You are no longer a member of the project." };
    },
  } satisfies Handlers;
}

/** Route handlers for invitations. */
export function invitationHandlers({ membership, tokens, urls, clock }: HandlerParts) {
  const { invitations, postMail } = membership;
  const projectLimit = new RateLimit({ max: invitationsPerMinute, clock, text: tooMany });
  const callerLimit = new RateLimit({ max: invitationsPerMinute, clock, text: tooMany });
  return {
    async listInvitations(call) {
      return (await invitations.list(projectOf(call))).map(showInvitation);
    },
    async createInvitation(call) {
      const projectId = projectOf(call);
      const body = bodyOf(call);
      // The route needs a token, so the actor has an id.
      callerLimit.take(call.by.actor.id ?? "");
      projectLimit.take(projectId);
      const wish = { projectId, email: String(body["email"]), role: body["role"] as Role };
      const created = await invitations.create(wish, requesterOf(call));
      const link = invitationPage(urls(), created.secret);
      // `postMail` is null when the platform sends no mail: the caller then passes the link on.
      postMail?.(mailOf(created, link));
      return {
        ...showInvitation(created.invitation),
        link,
        isMailed: postMail !== null,
      } satisfies Sent<z.infer<typeof answers.newInvitation>>;
    },
    async deleteInvitation(call) {
      const id = idOf(call, "invitation_id", "The project has no invitation with that id.");
      await invitations.delete(projectOf(call), id, requesterOf(call));
      return { message: "The invitation was withdrawn; its link no longer works." };
    },
    async getInvitation(call) {
      const secret = partOf(call, "token");
      return await invitations.show(new Secret(secret));
    },
    async acceptInvitation(call) {
      const { token, name, password } = bodyOf(call);
      // The route is public. With a token, the person who is signed in accepts.
      const hasToken = call.request.headers.authorization !== undefined;
      const caller = hasToken ? await authenticate(call.request, tokens) : null;
      return await invitations.accept({
        secret: new Secret(String(token)),
        name: name === null ? null : String(name),
        password: password === null ? null : new Secret(String(password)),
        caller,
        by: call.by,
      });
    },
  } satisfies Handlers;
}

function memberOf(call: ApiCall): { readonly projectId: ProjectId; readonly personId: string } {
  return {
    projectId: projectOf(call),
    personId: idOf(call, "person_id", "The project has no member with that id."),
  };
}

const tooMany = perMinute((used) => `${used} people were invited`);

function mailOf({ invitation, projectName }: CreatedInvitation, link: string): Mail {
  const { email, role, invitedBy, expiresAt } = invitation;
  return {
    to: email,
    subject: `Invitation to the project ${projectName}`,
    text: [
      `${invitedBy ?? "Someone"} has invited you to the project "${projectName}" with the role ${role}.`,
      `To accept, open this link. It is only for you, works once, and is valid until ${expiresAt.toUTCString()}:`,
      link,
      "If you did not expect this, you can ignore this message.",
    ].join("\n\n"),
  };
}

// The use cases return members and invitations in the form that the API sends.
const showMember = (member: Member): Sent<z.infer<typeof answers.member>> => member;
const showInvitation = (invitation: Invitation): Sent<z.infer<typeof answers.invitation>> =>
  invitation;
