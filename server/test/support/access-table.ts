// Who may use each route, written down by hand beside what the contract and the roles say: the matrix of
import { roles, type Role } from "@slipway/contract/words.ts";
// `api-access-matrix.test.ts` holds them to each other. A new route needs a row here; without one the test fails.

/**
 * `public`: whoever asks; `everybody`: all but tokens for calling apps; `people`: people alone, in a project its members;
 * `makers`: people and operators; `operators`; else members and service accounts of the project with one of these roles,
 * those with the permission that the contract names, and operators.
 */
export type Who = "public" | "everybody" | "people" | "makers" | "operators" | readonly Role[];

const all: Who = roles;
const workers: Who = ["owner", "admin", "member"];
const leaders: Who = ["owner", "admin"];
const payers: Who = ["owner", "billing"];
const accountants: Who = ["owner", "admin", "billing"];
const owners: Who = ["owner"];

/** By operation id. */
export const accessTable: Readonly<Record<string, Who>> = {
  createGitApp: workers,
  listApps: workers,
  getApp: workers,
  listBuilds: workers,
  getBuild: workers,
  cancelBuild: workers,
  rebuild: workers,
  getBuildLogs: workers,
  getAppLogs: workers,
  listContainers: workers,

  listProjects: "everybody",
  createProject: "makers",
  getProject: all,
  updateProject: leaders,
  deleteProject: owners,
  listMembers: all,
  updateMember: leaders,
  removeMember: leaders,
  leaveProject: "people",
  listInvitations: leaders,
  createInvitation: leaders,
  deleteInvitation: leaders,
  getInvitation: "public",
  acceptInvitation: "public",

  beginDeviceLogin: "public",
  endDeviceLogin: "public",
  getDeviceLogin: "people",
  decideDeviceLogin: "people",

  signIn: "public",
  signInTwoFactor: "public",
  listProviders: "public",
  signInWithProvider: "public",
  providerCallback: "public",
  signUp: "public",
  forgotPassword: "public",
  resetPassword: "public",
  createPasswordReset: "operators",
  createTwoFactorReset: "operators",
  changePassword: "people",
  beginTwoFactor: "people",
  confirmTwoFactor: "people",
  disableTwoFactor: "people",
  renewBackupCodes: "people",
  issueAccessToken: "public",
  signOut: "public",
  getSession: "people",
  listSessions: "people",
  endSession: "people",
  endOtherSessions: "people",

  listRuns: workers,
  getRun: workers,
  getRunResult: workers,
  cancelRun: workers,
  redriveRun: workers,
  listDeadRuns: workers,
  redriveDeadRuns: workers,
  purgeDeadRuns: workers,

  listWebhookSecrets: workers,
  createWebhookSecret: workers,
  deleteWebhookSecret: workers,
  listWebhookDeliveries: workers,
  getWebhookDelivery: workers,
  replayWebhookDelivery: workers,
  replayWebhookDeliveries: workers,
  listWebhookEndpoints: workers,
  pauseWebhookEndpoint: workers,
  resumeWebhookEndpoint: workers,
  getWebhookSchedule: workers,
  setWebhookSchedule: workers,

  createCoupon: "operators",
  listCoupons: "operators",
  endCoupon: "operators",
  applyCoupon: payers,

  getProjectCost: accountants,
  getAppCost: accountants,
  getUsage: accountants,
  listLedger: accountants,
  listAppliedCoupons: accountants,
  listStatements: accountants,
  getStatement: accountants,

  getProjectPlan: all,
  listOperatorProjects: "operators",
  updateOperatorProject: "operators",
  getProjectBudget: accountants,
  setProjectBudget: payers,
  deleteProjectBudget: payers,
  getAppBudget: accountants,
  setAppBudget: payers,
  deleteAppBudget: payers,

  listAuditLog: owners,
  exportAuditLog: owners,
  getAuditForwarding: owners,
  setAuditForwarding: owners,
  deleteAuditForwarding: owners,

  listServiceAccounts: leaders,
  createServiceAccount: leaders,
  updateServiceAccount: leaders,
  rotateServiceAccount: leaders,
  deleteServiceAccount: leaders,
  listApiKeys: leaders,
  createApiKey: leaders,
  rotateApiKey: leaders,
  deleteApiKey: leaders,
  listOperatorTokens: "operators",
  createOperatorToken: "operators",
  rotateOperatorToken: "operators",
  deleteOperatorToken: "operators",
  listSigningKeys: "operators",
  rotateSigningKey: "operators",
  withdrawSigningKey: "operators",

  getProjectSecrets: workers,
  setProjectSecrets: workers,
  getAppSecrets: workers,
  setAppSecrets: workers,
  listCredentials: workers,
  getCredential: workers,
  setCredential: leaders,
  deleteCredential: leaders,

  health: "public",
  ready: "public",
  keySet: "public",
  openApi: "public",
};

/** Routes that put an end to the caller when they are right: each gets a caller of its own. */
export const endingRoutes: ReadonlySet<string> = new Set(["leaveProject"]);
