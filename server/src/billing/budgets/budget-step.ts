// One step of a budget, in one transaction: its state, the audit entry, the notices and the
// notification of every process are written together or not at all. Called when usage is posted and
// when a budget changes.
import { randomUUID } from "node:crypto";
import { ownerAddresses } from "#accounts/project-store.ts";
import { platformActor, record } from "#audit/record.ts";
import { periodOf } from "#billing/period.ts";
import type { Tx } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import { toJson } from "#store/json.ts";
import { notify } from "#store/notify.ts";
import { addNotices, spentOf, writeState, type Budget, type Notice } from "./budget-store.ts";
import { wholeCentsOf, contentOf, messageOf, titleOf, type BudgetEvent } from "./budget-text.ts";
import { judgeBudget, type BudgetState, type BudgetStep } from "./budget.ts";

export type BudgetStepParts = Pick<Foundation, "clock" | "log"> & {
  /** Whether mail is configured. */
  readonly hasMail: boolean;
};

/** The resource of a budget's audit entries. */
export function resourceOf({ projectId, appId }: Budget): {
  readonly type: string;
  readonly id: string;
} {
  return appId === null ? { type: "project", id: projectId } : { type: "app", id: appId };
}

/**
 * Judges the budget, whose row must be locked, and writes its state and the events since `before`;
 * returns the resulting budget.
 */
export async function takeStep(
  tx: Tx,
  budget: Budget,
  before: BudgetState,
  parts: BudgetStepParts,
): Promise<Budget> {
  const nowMs = parts.clock.now();
  const period = periodOf(nowMs);
  const spentMicros = await spentOf(tx, budget, period);
  const step = judgeBudget(budget.terms, before, { period, spentMicros });
  const { state, warning, turn } = step;
  const stoppedAt = stoppedAtAfter(step, budget, nowMs);
  const after = { ...budget, state, stoppedAt };
  await writeState(tx, budget.id, state, stoppedAt);
  if (warning !== null)
    await recordEvent(tx, after, { kind: "warn", percent: warning, spentMicros }, parts);
  if (turn !== null) {
    await recordEvent(tx, after, { kind: turn, percent: null, spentMicros }, parts);
    // Every process keeps plans and stops in memory, and reads both again after this notification.
    await notify(tx, "plans", budget.projectId);
  }
  return after;
}

/** When the budget began to stop calls; null: it does not stop them. */
function stoppedAtAfter({ state, turn }: BudgetStep, budget: Budget, nowMs: number): Date | null {
  if (!state.isStopped) return null;
  if (turn === "stop") return new Date(nowMs);
  // A stop that goes on keeps its time.
  return budget.stoppedAt ?? new Date(nowMs);
}

/** Writes an event to the audit log, its notices, and a line of the platform's log. */
async function recordEvent(
  tx: Tx,
  budget: Budget,
  event: BudgetEvent,
  parts: BudgetStepParts,
): Promise<void> {
  const { projectId, appId, terms, state } = budget;
  const changes = {
    ...(event.percent === null ? {} : { percent: { new: event.percent } }),
    month: { new: state.period },
    amountCents: { new: wholeCentsOf(terms.amountMicros) },
    spentCents: { new: wholeCentsOf(event.spentMicros) },
  };
  const action = `budget.${event.kind}` as const;
  await record(tx, {
    projectId,
    action,
    by: { actor: platformActor },
    resource: resourceOf(budget),
    changes,
  });
  await addNotices(tx, await noticesOf(tx, budget, event, parts));
  parts.log.warn(
    { projectId, appId, event: event.kind, percent: event.percent },
    messageOf(budget, event),
  );
}

async function noticesOf(
  tx: Tx,
  budget: Budget,
  event: BudgetEvent,
  parts: BudgetStepParts,
): Promise<Notice[]> {
  const { projectId, webhookUrl } = budget;
  const notices: Notice[] = [];
  const add = (kind: Notice["kind"], target: string, content: object): void => {
    const id = randomUUID();
    notices.push({ id, project_id: projectId, kind, target, content: toJson(content) });
  };
  if (webhookUrl !== null) add("webhook", webhookUrl, contentOf(budget, event, parts.clock.now()));
  // Owners get no mail about the end of a stop.
  if (!parts.hasMail || event.kind === "resume") return notices;
  const mail = { subject: titleOf(budget, event), text: messageOf(budget, event) };
  for (const address of await ownerAddresses(tx, projectId)) add("mail", address, mail);
  return notices;
}
