// Opens the audit log: reading, the chain, retention, export and forwarding.
import type { ProjectId } from "#lib/ids.ts";
import { OutwardGuard } from "#lib/outward-guard.ts";
import { OutwardClient } from "#lib/outward-request.ts";
import { startRetention } from "#lib/retention.ts";
import type { Secret } from "#lib/secret.ts";
import type { Foundation } from "#store/foundation.ts";
import { AuditLog } from "./audit-log.ts";
import { AuditChain } from "./chain/audit-chain.ts";
import { auditRetention, type RetentionOf } from "./chain/audit-retention.ts";
import type { ChainSigner } from "./chain/chain-signature.ts";
import { AuditExport } from "./export/audit-export.ts";
import { Forwarder } from "./forwarding/forwarder.ts";
import { ForwardingUseCases } from "./forwarding/forwarding-use-cases.ts";

export type AuditSettings = {
  /** For how many days entries are kept where no plan sets a number of days. */
  readonly auditRetentionDays: number;
  /** The operator's receiver of all entries; null: none. `key` null: messages are unsigned. */
  readonly auditForward: { readonly url: Secret; readonly key: Buffer | null } | null;
};

type Parts = Foundation & {
  readonly signer: ChainSigner;
  /** Checks every URL from a user before it is called. */
  readonly guard: OutwardGuard;
  /** For how many days a project's plan keeps its entries; null: the settings decide. */
  readonly planDaysOf: (projectId: ProjectId) => number | null;
};

/** Opens the audit log; its loops start and end with the platform. */
export function openAudit(settings: AuditSettings, parts: Parts) {
  const { db, log, lifecycle, clock, planDaysOf, signer } = parts;
  // Entries without a project, and projects whose plan sets no days, follow the settings.
  const retentionOf: RetentionOf = (projectId) => {
    const planDays = projectId === null ? null : planDaysOf(projectId);
    return planDays ?? settings.auditRetentionDays;
  };
  const chain = new AuditChain({ db, clock, log, signer });
  lifecycle.onStart(() => chain.start());
  lifecycle.onClose("audit checkpoints", () => chain.stop());
  const steps = () => auditRetention({ db, clock, signer, retentionOf });
  startRetention({ name: "audit retention", steps, clock, log, lifecycle });
  return {
    auditLog: new AuditLog({ db, clock, retentionOf }),
    auditExport: new AuditExport({ db, clock, chain, retentionOf }),
    auditForwarding: openForwarding(settings, parts),
  };
}

/** The limit of concurrent requests of one client. */
const totalMax = 16;

function openForwarding({ auditForward }: AuditSettings, parts: Parts): ForwardingUseCases {
  const { db, sealer, notifications, instanceId, guard, log, lifecycle, clock } = parts;
  const common = { clock, userAgent: "Slipway", totalMax };
  const client = new OutwardClient({ ...common, guard });
  // The operator may choose any address: a log collector is usually on a private network.
  const anywhere = new OutwardGuard({ allow: ["0.0.0.0/0", "::/0"] });
  const operatorClient = new OutwardClient({ ...common, guard: anywhere });
  const forwarder = new Forwarder({
    db,
    sealer,
    notifications,
    instanceId,
    client,
    clock,
    log,
    platform:
      auditForward === null
        ? null
        : { url: auditForward.url.reveal(), key: auditForward.key, client: operatorClient },
  });
  lifecycle.onStart(() => forwarder.start());
  lifecycle.onClose("audit forwarding", async () => {
    // The clients are closed before the wait, so that `stop` waits for no receiver; the next start
    // resends a batch that was under way.
    const stopped = forwarder.stop();
    client.close();
    operatorClient.close();
    await stopped;
  });
  return new ForwardingUseCases({ db, sealer, checkUrl: (url) => guard.checkUrl(url) });
}
