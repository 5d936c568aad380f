// `slipway budgets …`: what a project or an app may cost in a month.
import { answerOf } from "@slipway/client/client.ts";
import { ApiRefused } from "./api-client.ts";
import { output } from "./output.ts";
import { misuse } from "./refused.ts";
import { appOption, changeCommand, defined, resourceCommand, type At } from "./resource.ts";
import { moneyText } from "./sizes.ts";
import { moment, printFields } from "./table.ts";

const projectRoute = "/v2/projects/{project_id}/budget" as const;
const appRoute = "/v2/projects/{project_id}/apps/{app_id}/budget" as const;

/** The commands of budgets, by verb. */
export const budgets = {
  show: resourceCommand({
    name: "budgets show",
    about: "Show the monthly budget of the project or of an app, and how much of it is spent.",
    examples: ["budgets", "budgets show --app hello"],
    of: "project",
    options: appOption,
    async run(at) {
      const one = await budgetOf(at);
      output(at.given, at.machine, one, () => {
        // As with the other lists, none is no failure.
        if (one === null)
          return at.machine.tell("There is no budget. To set one: slipway budgets set <amount>");
        printFields(at.machine, {
          Of: one.app_id ?? "the project",
          Month: one.month,
          Amount: moneyText(one.amount_cents, one.currency),
          Spent: moneyText(one.spent_cents, one.currency),
          "Warns at": one.warn_percent.map((percent) => `${percent} %`).join(", "),
          Warned: one.warned_percent === null ? null : `${one.warned_percent} %`,
          "Stops apps": one.stop ? "yes" : "no",
          "Stopped since": moment(one.stopped_at),
        });
      });
    },
  }),

  set: changeCommand({
    name: "budgets set",
    about: "Set the monthly budget of the project or of an app; an earlier one is replaced.",
    examples: ["budgets set 100", "budgets set 25.50 --app hello --warn 50,80 --stop"],
    of: "project",
    operands: [
      { name: "amount", about: "What a month may cost, before coupons, such as 100 or 25.50." },
    ],
    options: {
      warn: { value: "<percents>", about: "When to warn, such as 50,80. Default: 80,100." },
      stop: {
        value: null,
        about: "Refuse calls when the amount is reached, until the month is over.",
      },
      webhook: { value: "<url>", about: "Where warnings and stops are posted as well." },
      ...appOption,
    },
    change({ given, api, path }) {
      const warn = given.text("warn");
      const body = {
        amount_cents: centsOf(given.operand("amount")),
        stop: given.has("stop"),
        ...defined({
          warn_percent:
            warn === undefined ? undefined : warn.split(",").filter(Boolean).map(Number),
          webhook_url: given.text("webhook"),
        }),
      };
      return path.app_id === ""
        ? answerOf(api.PUT(projectRoute, { params: { path }, body }))
        : answerOf(api.PUT(appRoute, { params: { path }, body }));
    },
    said: ({ amount_cents, currency, spent_cents }) =>
      `The budget is ${moneyText(amount_cents, currency)} a month; ${moneyText(spent_cents, currency)} is spent.`,
  }),

  remove: changeCommand({
    name: "budgets remove",
    about: "Remove the budget of the project or of an app. What it had stopped goes on.",
    examples: ["budgets remove --yes", "budgets remove --app hello"],
    of: "project",
    hints: { 404: () => "To set one: slipway budgets set <amount>" },
    options: appOption,
    question: ({ path }) =>
      `Remove the budget of ${path.app_id === "" ? "the project" : path.app_id}?`,
    change: ({ api, path }) =>
      path.app_id === ""
        ? answerOf(api.DELETE(projectRoute, { params: { path } }))
        : answerOf(api.DELETE(appRoute, { params: { path } })),
    said: ({ amount_cents, currency }) =>
      `The budget of ${moneyText(amount_cents, currency)} was removed.`,
  }),
};

/** Null: there is none. Throws `Refused` for an app or a project that is not there. */
async function budgetOf({ api, path }: At) {
  try {
    return path.app_id === ""
      ? await answerOf(api.GET(projectRoute, { params: { path } }))
      : await answerOf(api.GET(appRoute, { params: { path } }));
  } catch (error) {
    if (error instanceof ApiRefused && error.status === 404 && /\bbudget\b/.test(error.message))
      return null;
    throw error;
  }
}

function centsOf(text: string): number {
  if (/^\d{1,9}(?:\.\d{1,2})?$/.test(text)) return Math.round(Number(text) * 100);
  throw misuse(`The amount is "${text}", but must be a number such as 100 or 25.50.`);
}
