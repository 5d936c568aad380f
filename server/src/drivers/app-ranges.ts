// The addresses that apps have in networks of their own, for parts that must tell apps from other
// clients.
import { subnetsRange } from "./docker/app-subnet.ts";
import { cables } from "./process/network.ts";

/** The ranges (CIDR) from which the drivers give apps their addresses. */
export const appRanges: readonly string[] = [cables.range, subnetsRange];
