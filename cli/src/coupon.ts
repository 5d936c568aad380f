// `slipway coupon …`: coupons of a project.
import { answerOf } from "@slipway/client/client.ts";
import { changeCommand, listCommand } from "./resource.ts";
import { moneyText } from "./sizes.ts";
import { moment, state } from "./table.ts";

const route = "/v2/projects/{project_id}/billing/coupons" as const;

/** The commands of coupons, by verb. */
export const coupon = {
  list: listCommand({
    name: "coupon list",
    about:
      "List the coupons that the project has applied, also those that have ended, oldest first.",
    examples: ["coupon"],
    of: "project",
    items: async ({ api, path }) => (await answerOf(api.GET(route, { params: { path } }))).items,
    columns: {
      CODE: ({ code }) => code,
      NAME: ({ name }) => name,
      STATE: ({ status }) => state(status),
      WORTH: (one) =>
        one.percentage_rate === undefined
          ? moneyText(one.amount_cents, one.amount_currency)
          : `${one.percentage_rate} %`,
      LEFT: (one) =>
        one.percentage_rate === undefined
          ? moneyText(one.amount_cents_balance, one.amount_currency)
          : null,
      HOW: ({ frequency }) => frequency,
      APPLIED: ({ applied_at }) => moment(applied_at),
      ENDS: ({ expiration_at }) => moment(expiration_at),
    },
    none: "The project has no coupons. To apply one: slipway coupon apply <code>",
  }),

  apply: changeCommand({
    name: "coupon apply",
    about: "Apply a coupon to the project.",
    examples: ["coupon apply WELCOME"],
    of: "project",
    operands: [{ name: "code", about: "The code of the coupon." }],
    async change({ api, path, given }) {
      const body = { coupon_code: given.operand("code") };
      return await answerOf(api.POST(`${route}/apply`, { params: { path }, body }));
    },
    said: ({ message }) => message,
  }),
};
