// `slipway usage` and `slipway cost`: what a project or an app used, and what that costs.
import { answerOf } from "@slipway/client/client.ts";
import { appOption, choice, defined, resourceCommand } from "./resource.ts";
import { output } from "./output.ts";
import { hoursText, moneyText } from "./sizes.ts";
import { printFields, printTable } from "./table.ts";

/** Shows usage. */
export const showUsage = resourceCommand({
  name: "usage",
  about:
    "Show what a project used, summed up by app, day or compute type, with its cost before coupons. Figures lag by about a minute.",
  examples: ["usage", "usage --by day --from 2026-01-01 --to 2026-02-01"],
  of: "project",
  options: {
    by: { value: "<what>", about: "app, day or compute. Default: app." },
    from: {
      value: "<day>",
      about: "On or after this day (UTC). Default: the first day of this month.",
    },
    to: { value: "<day>", about: "Before this day (UTC). Default: tomorrow." },
  },
  async run({ given, machine, api, path }) {
    const query = defined({
      group_by: choice(given, "by", ["app", "day", "compute"]),
      from: given.text("from"),
      to: given.text("to"),
    });
    const usage = await answerOf(
      api.GET("/v2/projects/{project_id}/usage", { params: { path, query } }),
    );
    const prefix = `${path.project_id}-`;
    // As everywhere else; a deleted app and a newer one of its name differ in the end of the id.
    const nameOf = (id: string): string => (id.startsWith(prefix) ? id.slice(prefix.length) : id);
    output(given, machine, usage, () => {
      const rowOf = (name: string, one: (typeof usage)["total"]) => [
        name,
        hoursText(one.replica_seconds),
        hoursText(one.cpu_core_seconds),
        `${(one.memory_gb_seconds / 3600).toFixed(2)} GB·h`,
        hoursText(one.gpu_seconds),
        one.build_count,
        moneyText(one.cost_cents, usage.currency),
      ];
      const rows = usage.items.map((one) =>
        rowOf(
          one.app_id === ""
            ? "persistent storage"
            : nameOf(one.app_id ?? one.day ?? computeText(one)),
          one,
        ),
      );
      const heads = [
        usage.group_by.toUpperCase(),
        "REPLICAS",
        "CORES",
        "MEMORY",
        "GPUS",
        "BUILDS",
        "COST",
      ];
      printTable(machine, heads, [...rows, rowOf("total", usage.total)]);
    });
  },
});

/** Shows costs. */
export const showCost = resourceCommand({
  name: "cost",
  about:
    "Show what the usage of a month costs: of the project with its coupons, or of one app. Figures lag by about a minute.",
  examples: ["cost", "cost --month 2026-01 --app hello"],
  of: "project",
  options: {
    month: { value: "<month>", about: "Such as 2026-01. Default: this month (UTC)." },
    ...appOption,
  },
  async run({ given, machine, api, path }) {
    const params = { path, query: defined({ month: given.text("month") }) };
    if (path.app_id !== "") {
      const cost = await answerOf(
        api.GET("/v2/projects/{project_id}/apps/{app_id}/cost", { params }),
      );
      const { month, currency, combined_cost_before_discounts_cents: cents } = cost.summary;
      return output(given, machine, cost, () => {
        printFields(machine, { Month: month, "Before coupons": moneyText(cents, currency) });
      });
    }
    const cost = await answerOf(api.GET("/v2/projects/{project_id}/cost", { params }));
    const { summary, coupons } = cost;
    const money = (cents: number): string => moneyText(cents, summary.currency);
    output(given, machine, cost, () => {
      printFields(machine, {
        Month: summary.month,
        "Before coupons": money(summary.combined_cost_before_discounts_cents),
        Coupons: money(-summary.discounts_cents),
        "To pay": money(summary.combined_cost_after_discounts_cents),
        "Credit left": money(coupons.reduce((sum, one) => sum + one.amount_cents_balance, 0)),
      });
    });
  },
});

function computeText(one: {
  compute?: string | undefined;
  compute_tier?: string | undefined;
  pool?: string | undefined;
}) {
  return [one.compute, one.compute_tier, one.pool]
    .filter((part) => part !== undefined && part !== "")
    .join(" ");
}
