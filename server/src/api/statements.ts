// Route handlers for monthly statements, which are sent as JSON, as CSV or as a printable page.
import type { z } from "zod";
import { costQuery, type statement, type statementList } from "@slipway/contract/usage-routes.ts";
import { shown } from "#apps/refusal.ts";
import type { Statement } from "#billing/statements/statement-queries.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import { partOf, projectOf, type Handlers } from "./call.ts";
import { microsOf, secondsOf, showGbSeconds, sumInCents } from "./show-money.ts";
import { statementCsv } from "./statement-csv.ts";
import { statementPage, statementPagePolicy } from "./statement-page.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for statements. */
export function statementHandlers({ statements: queries }: HandlerParts) {
  return {
    async listStatements(call) {
      const statements = await queries.list(projectOf(call));
      return { items: statements.map(sumsOf) } satisfies z.infer<typeof statementList>;
    },
    async getStatement(call) {
      const projectId = projectOf(call);
      const month = partOf(call, "month");
      if (!costQuery.month.form.test(month)) {
        throw new Fault(
          "invalid",
          `month is ${shown(month)}, but must be ${costQuery.month.allowed}.`,
        );
      }
      const monthlyStatement = await queries.read(projectId, month);
      if (monthlyStatement === null)
        throw new Fault("not_found", "This month is in the future: it has no statement yet.");
      const { reply, query } = call;
      if (query["format"] === "json") return showStatement(projectId, monthlyStatement);
      if (query["format"] === "csv") {
        void reply.header("content-type", "text/csv; charset=utf-8; header=present");
        void reply.header(
          "content-disposition",
          `attachment; filename="statement-${projectId}-${month}.csv"`,
        );
        void reply.code(200).send(statementCsv(monthlyStatement.content));
      } else {
        void reply.header("content-type", "text/html; charset=utf-8");
        void reply.header("content-security-policy", statementPagePolicy);
        void reply.code(200).send(statementPage(projectId, monthlyStatement));
      }
      return undefined;
    },
  } satisfies Handlers;
}

function sumsOf({ content, closedAt }: Statement): z.infer<typeof statementList>["items"][number] {
  const { usageMicros, discountMicros, correctionMicros, totalMicros } = content;
  const numberOf = (micros: string): number => microsOf(BigInt(micros));
  const cents = sumInCents({
    usage: BigInt(usageMicros),
    discounts: BigInt(discountMicros),
    corrections: BigInt(correctionMicros),
  });
  return {
    month: content.period,
    currency: content.currency,
    status: closedAt === null ? "open" : "closed",
    closed_at: closedAt?.toISOString() ?? null,
    usage_cents: cents.usage,
    usage_micros: numberOf(usageMicros),
    discounts_cents: cents.discounts,
    discounts_micros: numberOf(discountMicros),
    corrections_cents: cents.corrections,
    corrections_micros: numberOf(correctionMicros),
    total_cents: cents.total,
    total_micros: numberOf(totalMicros),
  };
}

function showStatement(
  projectId: ProjectId,
  monthlyStatement: Statement,
): z.infer<typeof statement> {
  const { lines, discounts, corrections } = monthlyStatement.content;
  return {
    project_id: projectId,
    ...sumsOf(monthlyStatement),
    lines: lines.map((line) => ({
      app_id: line.appId,
      kind: line.kind,
      compute: line.compute,
      compute_tier: line.computeTier,
      pool: line.pool,
      seconds: secondsOf(line.ms),
      gpu_seconds: secondsOf(line.gpuMs),
      cpu_core_seconds: secondsOf(line.coreMs),
      ...showGbSeconds(line),
      build_count: line.builds,
      cost_micros: microsOf(BigInt(line.micros)),
    })),
    discounts: discounts.map(({ code, name, micros }) => ({
      coupon_code: code,
      coupon_name: name,
      amount_micros: microsOf(BigInt(micros)),
    })),
    corrections: corrections.map(({ period, usageMicros, discountMicros }) => ({
      month: period,
      usage_micros: microsOf(BigInt(usageMicros)),
      discounts_micros: microsOf(BigInt(discountMicros)),
    })),
  };
}
