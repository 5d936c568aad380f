// When builds of an app may share an artifact. Pure.
import { createHash } from "node:crypto";
import type { BuildPlan } from "#drivers/builder.ts";
import { areVersionsExact } from "#drivers/exact-versions.ts";

export type Fingerprint = {
  /** Builds of one app with the same text make the same artifact. */
  readonly text: string;
  /** Also when much time lies between them: nothing is fetched that may be newer by then. */
  readonly isLasting: boolean;
};

/** Of what an artifact is made of: the commit, the folder in it and the plan, whichever build has it. */
export function fingerprintOf(given: {
  readonly commit: string;
  readonly gitPath: string;
  readonly driver: string;
  readonly plan: BuildPlan;
}): Fingerprint {
  const { plan } = given;
  const { buildId: _, startsClean: _clean, environment, ...rest } = plan;
  const { BUILD_ID: _build, ...variables } = environment;
  const facts = [given.driver, given.commit, given.gitPath, { ...rest, variables }];
  const fetched = [plan.preBuildCommands, plan.shellCommands, plan.aptPackages, plan.condaPackages];
  return {
    text: createHash("sha256").update(JSON.stringify(facts)).digest("hex"),
    isLasting: areVersionsExact(plan.requirements) && fetched.every((list) => list.length === 0),
  };
}
