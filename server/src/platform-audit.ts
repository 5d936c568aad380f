// Connects the audit log: reading, the chain, retention, export, and where entries are sent on.
import type { SigningKeys } from "#accounts/keys.ts";
import { AuditChain } from "#audit/chain/audit-chain.ts";
import { AuditLog } from "#audit/audit-log.ts";
import { auditRetention, type RetentionOf } from "#audit/chain/audit-retention.ts";
import { AuditExport } from "#audit/export/audit-export.ts";
import { Forwarder } from "#audit/forwarding/forwarder.ts";
import { ForwardingUseCases } from "#audit/forwarding/forwarding-use-cases.ts";
import type { PlanCache } from "#billing/plans/plan-cache.ts";
import { OutwardGuard } from "#lib/outward-guard.ts";
import { OutwardClient } from "#lib/outward-request.ts";
import { startRetention } from "#lib/retention.ts";
import type { Config } from "./config.ts";
import type { Foundation } from "./platform-foundation.ts";

/** What the API does with the audit log. */
export type AuditParts = {
  readonly auditLog: AuditLog;
  readonly auditExport: AuditExport;
  readonly auditForwarding: ForwardingUseCases;
};

type Parts = Foundation & {
  readonly keys: SigningKeys;
  /** Of all calls to where users say. */
  readonly guard: OutwardGuard;
  /** A plan may say how long a project's entries are kept. */
  readonly plans: Pick<PlanCache, "planOf">;
};

/** Opens it; its loops end with the platform. */
export async function openAudit(config: Config, parts: Parts): Promise<AuditParts> {
  const { db, log, lifecycle, clock, plans, keys: signer } = parts;
  const retentionOf: RetentionOf = (projectId) =>
    (projectId === null ? null : plans.planOf(projectId).auditRetentionDays) ?? config.auditRetentionDays;
  const chain = new AuditChain({ db, clock, log, signer });
  chain.start();
  lifecycle.onClose("audit checkpoints", () => chain.stop());
  const steps = () => auditRetention({ db, clock, signer, retentionOf });
  startRetention({ name: "audit retention", steps, clock, log, lifecycle });
  return {
    auditLog: new AuditLog({ db, clock, retentionOf }),
    auditExport: new AuditExport({ db, clock, chain, retentionOf }),
    auditForwarding: await openForwarding(config, parts),
  };
}

/** Receivers at once, each of which gets one batch at a time. */
const totalMax = 16;

async function openForwarding({ auditForward }: Config, parts: Parts): Promise<ForwardingUseCases> {
  const { db, sealer, notifications, instanceId, guard, log, lifecycle, clock } = parts;
  const common = { clock, userAgent: "Slipway", totalMax };
  const client = new OutwardClient({ ...common, guard });
  // What the operator chose may be anywhere: a collector of logs is on a private network as a rule.
  const anywhere = new OutwardGuard({ allow: ["0.0.0.0/0", "::/0"] });
  const operators = new OutwardClient({ ...common, guard: anywhere });
  const forwarder = new Forwarder({
    ...{ db, sealer, notifications, instanceId, client, clock, log },
    platform:
      auditForward === null ? null : { url: auditForward.url.reveal(), key: auditForward.key, client: operators },
  });
  await forwarder.start();
  lifecycle.onClose("audit forwarding", async () => {
    // Before it is waited for: a batch that is under way is sent again by the next start.
    const stopped = forwarder.stop();
    client.close();
    operators.close();
    await stopped;
  });
  return new ForwardingUseCases({ db, sealer, checkUrl: (url) => guard.checkUrl(url) });
}
