// Routes of projects, their members, and invitations.
import { messageAnswer, projectList } from "./answers.ts";
import * as answers from "./project-answers.ts";
import { acceptFields, invitationFields, memberFields, projectFields } from "./project-fields.ts";
import { paths, type Route } from "./route.ts";

const projects = "/v2/projects";
const members = `${paths.project}/members`;
const invitations = `${paths.project}/invitations`;
const openInvitations = "/v2/auth/invitations";

/** By operation id; part of the table in `routes.ts`. */
export const projectRoutes = {
  listProjects: {
    method: "GET",
    path: projects,
    about: "The projects that the caller belongs to; for an operator all.",
    access: "any",
    audit: null,
    status: 200,
    answer: projectList,
  },
  createProject: {
    method: "POST",
    path: projects,
    about:
      "Makes a project. A person becomes its owner; an operator's has no members until some are invited. Service accounts belong to one project and make no others.",
    access: "any",
    audit: "project.create",
    body: { kind: "fields", fields: projectFields, required: ["name"] },
    status: 201,
    answer: answers.projectDetail,
  },
  getProject: {
    method: "GET",
    path: paths.project,
    about: "One project.",
    access: "projects.read",
    audit: null,
    status: 200,
    answer: answers.projectDetail,
  },
  updateProject: {
    method: "PATCH",
    path: paths.project,
    about: "Gives a project another name.",
    access: "projects.update",
    audit: "project.update",
    body: { kind: "fields", fields: projectFields, required: ["name"] },
    status: 200,
    answer: answers.projectDetail,
  },
  deleteProject: {
    method: "DELETE",
    path: paths.project,
    about:
      "Deletes a project without apps, and with it its members, invitations, tokens, secrets and git credentials, at once. 409 while it has apps. Its audit log is kept.",
    access: "projects.delete",
    audit: "project.delete",
    status: 200,
    answer: messageAnswer,
  },
  listMembers: {
    method: "GET",
    path: members,
    about: "The members of a project, who came first first.",
    access: "members.read",
    audit: null,
    status: 200,
    answer: answers.memberList,
  },
  updateMember: {
    method: "PATCH",
    path: `${members}/{person_id}`,
    about:
      "Gives a member another role. Neither the role that they have nor the one that they get may allow what the caller may not. 409 when the project would be left without an owner.",
    access: "members.write",
    audit: "member.update",
    body: { kind: "fields", fields: memberFields, required: ["role"] },
    status: 200,
    answer: answers.member,
  },
  removeMember: {
    method: "DELETE",
    path: `${members}/{person_id}`,
    about:
      "Ends a membership at once; the member's role may not allow what the caller may not. 409 when the project would be left without an owner.",
    access: "members.write",
    audit: "member.remove",
    status: 200,
    answer: messageAnswer,
  },
  leaveProject: {
    method: "DELETE",
    path: `${members}/me`,
    about: "Ends the caller's own membership. 409 for the last owner.",
    access: "person",
    audit: "member.remove",
    status: 200,
    answer: messageAnswer,
  },
  listInvitations: {
    method: "GET",
    path: invitations,
    about: "The invitations to a project that can be accepted still, the newest first.",
    access: "members.write",
    audit: null,
    status: 200,
    answer: answers.invitationList,
  },
  createInvitation: {
    method: "POST",
    path: invitations,
    about:
      "Invites a person to a project. The answer alone holds the link, which is good for one use within 7 days; where mail is set up it is sent to the address too. Inviting the same address again makes a new link and ends the old one.",
    access: "members.write",
    audit: "invitation.create",
    body: { kind: "fields", fields: invitationFields, required: ["email", "role"] },
    status: 201,
    answer: answers.newInvitation,
  },
  deleteInvitation: {
    method: "DELETE",
    path: `${invitations}/{invitation_id}`,
    about: "Withdraws an invitation: its link ends at once.",
    access: "members.write",
    audit: "invitation.delete",
    status: 200,
    answer: messageAnswer,
  },
  getInvitation: {
    method: "GET",
    path: `${openInvitations}/{token}`,
    about: "What an invitation is to, for whoever has its link. 404 when it was used or withdrawn, or has expired.",
    access: "public",
    audit: null,
    status: 200,
    answer: answers.openInvitation,
  },
  acceptInvitation: {
    method: "POST",
    path: `${openInvitations}/accept`,
    about:
      "Makes whoever was invited a member. A person without an account gets one and sends name and password; a person with one sends their own token.",
    access: "public",
    audit: "invitation.accept",
    body: { kind: "fields", fields: acceptFields, required: ["token"] },
    status: 200,
    answer: answers.acceptedInvitation,
  },
} as const satisfies Record<string, Route>;
