// Defines a plan: the limits of a project and its monthly credit. Pure. Plans come from
// `plan-file.ts`; `plan-cache.ts` has each project's plan.

/** Which coupons a plan's projects can apply: any, only those that name the plan, or none. */
export const couponRules = ["all", "named", "none"] as const;

/**
 * A plan. Null means no limit; for days and for recorded calls it means the value of the platform's
 * settings.
 */
export type ProjectPlan = {
  readonly name: string;
  readonly appsMax: number | null;
  /** Replicas that start or serve, over all apps of a project. */
  readonly replicasMax: number | null;
  /** The maximum number of GPUs of these replicas; null: no limit. */
  readonly gpusMax: number | null;
  readonly auditRetentionDays: number | null;
  readonly logRetentionDays: number | null;
  /** For how many days records of plain calls are kept. */
  readonly callRetentionDays: number | null;
  /** Successful plain calls of an app that are recorded per minute; null: as in the settings. */
  readonly callRecordsPerMinute: number | null;
  /** A project's credit in each month with usage, in US cents; 0: none. */
  readonly monthlyCreditCents: number;
  readonly coupons: (typeof couponRules)[number];
};

/** The values for projects whose plan does not set them. */
export type PlanDefaults = {
  readonly auditDays: number;
  readonly logDays: number;
  readonly callDays: number;
  readonly callRecordsPerMinute: number;
};

/** All plans. `standard` applies to projects without an assigned plan. */
export type Plans = {
  readonly standard: ProjectPlan;
  readonly byName: ReadonlyMap<string, ProjectPlan>;
};

/** The plan without limits; a plan of this name always exists. */
export const selfHosted: ProjectPlan = {
  name: "self-hosted",
  appsMax: null,
  replicasMax: null,
  gpusMax: null,
  auditRetentionDays: null,
  logRetentionDays: null,
  callRetentionDays: null,
  callRecordsPerMinute: null,
  monthlyCreditCents: 0,
  coupons: "all",
};

/** The plans of a platform without a plans file. */
export const plansOfNoFile: Plans = {
  standard: selfHosted,
  byName: new Map([[selfHosted.name, selfHosted]]),
};
