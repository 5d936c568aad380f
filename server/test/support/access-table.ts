// Who may use each route, written by hand, independently of the contract and the roles. The matrix of
// `api-access-matrix.test.ts` compares both. A new route needs a row here; without it the test fails.
import { roles, type Role } from "@slipway/contract/words.ts";

/**
 * `public`: anybody; `everybody`: all but tokens for calling apps; `people`: only people, in a project its members;
 * `makers`: people and operators; `operators`; otherwise members and service accounts of the project with one of these roles,
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
  stopApp: workers,
  startApp: workers,
  restartApp: workers,
  updateApp: workers,
  deleteApp: leaders,
  listBuilds: workers,
  getBuild: workers,
  cancelBuild: workers,
  createBuild: workers,
  rebuild: workers,
  listReleases: workers,
  getRelease: workers,
  rollBack: workers,
  resumeDeploys: workers,
  getRollOut: workers,
  pauseRollOut: workers,
  resumeRollOut: workers,
  finishRollOut: workers,
  cancelRollOut: workers,
  getBuildLogs: workers,
  getAppLogs: workers,
  listContainers: workers,
  makeGitHook: workers,
  getGitHook: workers,
  listGitDeliveries: workers,
  replayGitDelivery: workers,
  receiveGitPush: "public",

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

  getHardware: "public",
  health: "public",
  ready: "public",
  keySet: "public",
  openApi: "public",
};

/** Routes that end their caller on success: each gets a new caller. */
export const endingRoutes: ReadonlySet<string> = new Set(["leaveProject"]);
