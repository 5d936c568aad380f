// Which settings of an app are listed, and in which order. Pure.
import { appFields } from "@slipway/contract/app-fields.ts";
import type { Field } from "@slipway/contract/field.ts";

/** What people change most, in this order. */
const first = [
  "compute",
  "cpu",
  "memory",
  "gpuCount",
  "minReplicaCount",
  "maxReplicaCount",
  "cooldownPeriodSeconds",
  "replicaConcurrency",
  "responseGracePeriodSeconds",
  "gitRepo",
  "gitBranch",
  "gitPath",
  "gitAutoDeploy",
  "gitSubmodules",
  "gitLfs",
];
/** What clients write, and what stays as it is. */
const last = ["partialUpload", "cliVersion", "name"];

/** The settings whose name or description holds the text. */
export function listedSettings<Setting>(
  settings: Readonly<Record<string, Setting>>,
  search: string,
): [string, Setting][] {
  const text = search.toLowerCase();
  const found = Object.entries(settings).filter(
    ([name]) =>
      name.toLowerCase().includes(text) ||
      fieldOf(name)?.about.toLowerCase().includes(text) === true,
  );
  return found.toSorted(([one], [other]) => rankOf(one) - rankOf(other));
}

/** The contract's row of a setting; undefined: only a file in the repository has it. */
export function fieldOf(name: string): Field | undefined {
  return Object.hasOwn(appFields, name) ? appFields[name as keyof typeof appFields] : undefined;
}

function rankOf(name: string): number {
  if (first.includes(name)) return first.indexOf(name) - first.length;
  return last.indexOf(name) + 1;
}
