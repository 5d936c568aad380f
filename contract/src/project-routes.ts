// Routes of projects, their members, and invitations.
import { messageAnswer, projectList } from "./answers.ts";
import * as answers from "./project-answers.ts";
import { acceptFields, invitationFields, memberFields, projectFields } from "./project-fields.ts";
import { paths, type Route } from "./route.ts";

const projects = "/v2/projects";
const members = `${paths.project}/members` as const;
const invitations = `${paths.project}/invitations` as const;
const openInvitations = "/v2/auth/invitations";

/** By operation id; part of the table in `routes.ts`. */
export const projectRoutes = {
  listProjects: {
    method: "GET",
    path: projects,
    about: "The caller's projects; for an operator, all projects.",
    access: "any",
    audit: null,
    status: 200,
    answer: projectList,
  },
  createProject: {
    method: "POST",
    path: projects,
    about:
      "Creates a project. A person becomes its owner; a project created by an operator has no members until some are invited. Service accounts belong to one project and cannot create others.",
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
    about: "Renames a project.",
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
      "Deletes a project, and with it its apps (as the deletion of each app does), members, invitations, tokens, secrets and git credentials. Its audit log, usage and statements are kept.",
    access: "projects.delete",
    audit: "project.delete",
    status: 200,
    answer: messageAnswer,
  },
  listMembers: {
    method: "GET",
    path: members,
    about: "The members of a project, in the order in which they joined.",
    access: "members.read",
    audit: null,
    status: 200,
    answer: answers.memberList,
  },
  updateMember: {
    method: "PATCH",
    path: `${members}/{person_id}`,
    about:
      "Changes the role of a member. Neither the old nor the new role may have permissions that the caller lacks. 409 if the project would be left without an owner.",
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
      "Removes a member immediately; the member's role must not have permissions that the caller lacks. 409 if the project would be left without an owner.",
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
    about: "The open invitations to a project, newest first.",
    access: "members.write",
    audit: null,
    status: 200,
    answer: answers.invitationList,
  },
  createInvitation: {
    method: "POST",
    path: invitations,
    about:
      "Invites a person to a project. Only this response has the link, which works once within 7 days; if mail is configured, it is also sent to the address. Inviting the same address again creates a new link and invalidates the old one.",
    access: "members.write",
    audit: "invitation.create",
    body: { kind: "fields", fields: invitationFields, required: ["email", "role"] },
    status: 201,
    answer: answers.newInvitation,
  },
  deleteInvitation: {
    method: "DELETE",
    path: `${invitations}/{invitation_id}`,
    about: "Withdraws an invitation: its link stops working immediately.",
    access: "members.write",
    audit: "invitation.delete",
    status: 200,
    answer: messageAnswer,
  },
  getInvitation: {
    method: "GET",
    path: `${openInvitations}/{token}`,
    about:
      "The details of an invitation, for anyone who has its link. 404 if it was used or withdrawn, or has expired.",
    access: "public",
    audit: null,
    status: 200,
    answer: answers.openInvitation,
  },
  acceptInvitation: {
    method: "POST",
    path: `${openInvitations}/accept`,
    about:
      "Accepts an invitation. A person without an account sends a name and password to create one; a person with an account sends their own token.",
    access: "public",
    audit: "invitation.accept",
    body: { kind: "fields", fields: acceptFields, required: ["token"] },
    status: 200,
    answer: answers.acceptedInvitation,
  },
} as const satisfies Record<string, Route>;
