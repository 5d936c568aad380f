// The cgroups of a machine without any, for tests of drivers that limit nothing.
import type { Cgroups } from "#drivers/process/cgroup-detect.ts";

/** No cgroups, and so no limits. */
export const noCgroups: Cgroups = { parents: [], missing: "the test limits nothing" };
