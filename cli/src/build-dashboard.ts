// Builds the dashboard beside a platform that `slipway up` or `slipway start` starts.
import { spawn } from "node:child_process";
import { join } from "node:path";
import type { Installation } from "./installation.ts";

/**
 * As `npm start` does in a checkout: beside the platform's process, and no longer than it. The
 * dashboard itself says when that fails. A package has a built one.
 */
export function buildDashboard({ root, node, isCheckout }: Installation, pid: number): void {
  if (!isCheckout) return;
  const options = { cwd: root, detached: true, stdio: "ignore" } as const;
  const child = spawn(node, [join(root, "tools/dashboard.mjs"), "--beside", String(pid)], options);
  child.on("error", () => undefined);
  child.unref();
}
