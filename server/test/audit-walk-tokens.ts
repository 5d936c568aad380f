// Rows of the walk over all routes for tokens and the keys that sign them; see
// `audit-walk-rows.ts`.
import type { RouteId } from "@slipway/contract/routes.ts";
import type { Walk, WalkAnswer, WalkCall, WalkRow } from "./support/audit-walk.ts";

type Making = "createServiceAccount" | "createApiKey" | "createOperatorToken";

/** Makes one; the call names it in the path. */
async function newToken(
  walk: Walk,
  id: Making,
  part: string,
  body: object = {},
): Promise<WalkCall> {
  const { status, body: made } = await walk.call(id, { body: { name: "walked", ...body } });
  if (status !== 201) throw new Error(JSON.stringify(made));
  return { parts: { [part]: made.id } };
}

const made = (type: string) => ({
  resource: ({ body }: WalkAnswer) => ({ type, id: body.id }),
});

const serviceAccount = (walk: Walk): Promise<WalkCall> =>
  newToken(walk, "createServiceAccount", "service_account_id", { role: "member" });
const apiKey = (walk: Walk): Promise<WalkCall> => newToken(walk, "createApiKey", "api_key_id");
const operatorToken = (walk: Walk): Promise<WalkCall> =>
  newToken(walk, "createOperatorToken", "token_id");

/** By operation id. */
export const tokenRows: Readonly<Partial<Record<RouteId, WalkRow>>> = {
  createServiceAccount: {
    succeed: () => ({ body: { name: "walked", permissions: ["apps.read"] } }),
    ...made("service_account"),
  },
  updateServiceAccount: {
    succeed: async (walk) => ({ ...(await serviceAccount(walk)), body: { role: "billing" } }),
  },
  rotateServiceAccount: { succeed: serviceAccount },
  deleteServiceAccount: { succeed: serviceAccount },
  listApiKeys: {
    async succeed(walk) {
      await newToken(walk, "createApiKey", "api_key_id", { readable: true });
      return {};
    },
    resource: () => ({ type: "inference", id: null }),
  },
  createApiKey: { succeed: () => ({ body: { name: "walked" } }), ...made("inference") },
  rotateApiKey: { succeed: apiKey },
  deleteApiKey: { succeed: apiKey },
  createOperatorToken: { succeed: () => ({ body: { name: "walked" } }), ...made("operator") },
  rotateOperatorToken: { succeed: operatorToken },
  deleteOperatorToken: { succeed: operatorToken },
  rotateSigningKey: { succeed: () => ({}), ...made("signing_key") },
  withdrawSigningKey: {
    async succeed(walk) {
      // The one that nothing was signed by yet: two are made, and the first of them is retired.
      const { body } = await walk.call("rotateSigningKey", {});
      await walk.call("rotateSigningKey", {});
      return { parts: { key_id: body.id } };
    },
  },
};
