// Token routes: service accounts and API keys of a project, the operator's tokens and the signing
// keys.
import { paths, type Route } from "./route.ts";
import * as shapes from "./token-fields.ts";

const serviceAccounts = `${paths.project}/service-accounts` as const;
const oneServiceAccount = `${serviceAccounts}/{service_account_id}` as const;
const apiKeys = `${paths.project}/api-keys` as const;
const oneApiKey = `${apiKeys}/{api_key_id}` as const;
const operatorTokens = "/v2/operator/tokens";
const oneOperatorToken = `${operatorTokens}/{token_id}` as const;
const signingKeys = "/v2/operator/signing-keys";

const rotation = { kind: "fields", fields: shapes.rotationFields, required: [] } as const;

/** By operation id; part of the table in `routes.ts`. */
export const tokenRoutes = {
  listServiceAccounts: {
    method: "GET",
    path: serviceAccounts,
    about: "The service accounts of a project: active ones first, then newest first; at most 1000.",
    access: "tokens.read",
    audit: null,
    status: 200,
    answer: shapes.serviceAccountList,
  },
  createServiceAccount: {
    method: "POST",
    path: serviceAccounts,
    about:
      "Creates a service account and its token, which is shown only once. It cannot have permissions that the caller lacks.",
    access: "tokens.write",
    audit: "token.create",
    body: { kind: "fields", fields: shapes.serviceAccountFields, required: ["name"] },
    status: 201,
    answer: shapes.issuedServiceAccount,
  },
  updateServiceAccount: {
    method: "PATCH",
    path: oneServiceAccount,
    about:
      "Changes the name or the permissions of a service account; its tokens stay valid. To change permissions, the caller needs all of the old and the new ones.",
    access: "tokens.write",
    audit: "token.update",
    body: { kind: "fields", fields: shapes.serviceAccountChange, required: [] },
    status: 200,
    answer: shapes.serviceAccount,
  },
  rotateServiceAccount: {
    method: "POST",
    path: `${oneServiceAccount}/rotate`,
    about:
      "Issues a new token for a service account, which is shown only once; the previous one stays valid for a while. While two are valid, only `overlap_seconds` 0 is accepted.",
    access: "tokens.write",
    audit: "token.rotate",
    body: rotation,
    status: 201,
    answer: shapes.issuedServiceAccount,
  },
  deleteServiceAccount: {
    method: "DELETE",
    path: oneServiceAccount,
    about: "Revokes all tokens of a service account, everywhere within a second.",
    access: "tokens.write",
    audit: "token.revoke",
    status: 200,
    answer: shapes.serviceAccount,
  },
  listApiKeys: {
    method: "GET",
    path: apiKeys,
    about:
      "The tokens for calling the apps of a project, readable ones first. Readable tokens are shown to callers who may issue tokens, and this is recorded.",
    access: "tokens.read",
    audit: "token.read",
    status: 200,
    answer: shapes.apiKeyList,
  },
  createApiKey: {
    method: "POST",
    path: apiKeys,
    about: "Creates a token for calling the apps of a project and nothing else.",
    access: "tokens.write",
    audit: "token.create",
    body: { kind: "fields", fields: shapes.apiKeyFields, required: ["name"] },
    status: 201,
    answer: shapes.issuedApiKey,
  },
  rotateApiKey: {
    method: "POST",
    path: `${oneApiKey}/rotate`,
    about: "Issues a new token for calling apps; the previous one stays valid for a while.",
    access: "tokens.write",
    audit: "token.rotate",
    body: rotation,
    status: 201,
    answer: shapes.issuedApiKey,
  },
  deleteApiKey: {
    method: "DELETE",
    path: oneApiKey,
    about: "Revokes a token for calling apps, everywhere within a second.",
    access: "tokens.write",
    audit: "token.revoke",
    status: 200,
    answer: shapes.apiKey,
  },
  listOperatorTokens: {
    method: "GET",
    path: operatorTokens,
    about: "The operators' tokens. Operators only.",
    access: "platform.manage",
    audit: null,
    status: 200,
    answer: shapes.operatorTokenList,
  },
  createOperatorToken: {
    method: "POST",
    path: operatorTokens,
    about:
      "Creates a token that may do everything on the whole platform; it is shown only once. Operators only.",
    access: "platform.manage",
    audit: "token.create",
    body: { kind: "fields", fields: shapes.operatorTokenFields, required: ["name"] },
    status: 201,
    answer: shapes.issuedOperatorToken,
  },
  rotateOperatorToken: {
    method: "POST",
    path: `${oneOperatorToken}/rotate`,
    about: "Issues a new operator token; the previous one stays valid for a while. Operators only.",
    access: "platform.manage",
    audit: "token.rotate",
    body: rotation,
    status: 201,
    answer: shapes.issuedOperatorToken,
  },
  deleteOperatorToken: {
    method: "DELETE",
    path: oneOperatorToken,
    about: "Revokes an operator's token, unless no other is left. Operators only.",
    access: "platform.manage",
    audit: "token.revoke",
    status: 200,
    answer: shapes.operatorToken,
  },
  listSigningKeys: {
    method: "GET",
    path: signingKeys,
    about: "The keys that sign tokens, newest first. Operators only.",
    access: "platform.manage",
    audit: null,
    status: 200,
    answer: shapes.signingKeyList,
  },
  rotateSigningKey: {
    method: "POST",
    path: signingKeys,
    about:
      "Creates a new signing key and uses it from now on; tokens signed by other keys stay valid. Operators only.",
    access: "platform.manage",
    audit: "signing_key.create",
    status: 201,
    answer: shapes.signingKey,
  },
  withdrawSigningKey: {
    method: "DELETE",
    path: `${signingKeys}/{key_id}`,
    about:
      "Withdraws a retired key: it is no longer published, and tokens that it signed become invalid everywhere within a second. Refused while it has signed valid tokens, unless `force` is true. Operators only.",
    access: "platform.manage",
    audit: "signing_key.withdraw",
    query: shapes.withdrawKeyQuery,
    status: 200,
    answer: shapes.signingKey,
  },
} as const satisfies Record<string, Route>;
