// What a plan is: the limits of a project and what it is given each month. Pure. Plans come from `plan-file.ts`; which one
// a project has, from `plan-cache.ts`.

/** Which coupons projects of a plan can apply: any, only those that name the plan, or none. */
export const couponRules = ["all", "named", "none"] as const;

/** A plan. Null: no limit; of the days: as the settings of the platform say. */
export type ProjectPlan = {
  readonly name: string;
  readonly appsMax: number | null;
  /** Replicas that start or serve, of all apps of a project. */
  readonly replicasMax: number | null;
  /** GPUs of these replicas. */
  readonly gpusMax: number | null;
  readonly auditRetentionDays: number | null;
  readonly logRetentionDays: number | null;
  /** What a project is given anew in each month with usage, in hundredths of a US dollar; 0: nothing. */
  readonly monthlyCreditCents: number;
  readonly coupons: (typeof couponRules)[number];
};

/** All plans there are. `standard` is the one of projects that were given none. */
export type Plans = { readonly standard: ProjectPlan; readonly byName: ReadonlyMap<string, ProjectPlan> };

/** Limits nothing; there is always a plan of its name. */
export const selfHosted: ProjectPlan = {
  name: "self-hosted",
  appsMax: null,
  replicasMax: null,
  gpusMax: null,
  auditRetentionDays: null,
  logRetentionDays: null,
  monthlyCreditCents: 0,
  coupons: "all",
};

/** What a platform without a file of plans has. */
export const plansOfNoFile: Plans = { standard: selfHosted, byName: new Map([[selfHosted.name, selfHosted]]) };
