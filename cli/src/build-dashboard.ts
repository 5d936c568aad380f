// Builds the dashboard beside a platform that `slipway up` or `slipway start` starts.
import { spawn } from "node:child_process";
import { join } from "node:path";
import type { Checkout } from "./checkout.ts";

/**
 * As `npm start` does: beside the platform's process, and no longer than it. The dashboard itself
 * says when that fails.
 */
export function buildDashboard({ root, node }: Checkout, pid: number): void {
  const options = { cwd: root, detached: true, stdio: "ignore" } as const;
  const child = spawn(node, [join(root, "tools/dashboard.mjs"), "--beside", String(pid)], options);
  child.on("error", () => undefined);
  child.unref();
}
