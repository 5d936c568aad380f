// Finds the files that come with the platform beside its code. Their paths below the root are the
// same in a checkout and in the npm package. Only the code is in another folder in the package, so
// the root is searched for.
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

const pythonRuntime = "runtimes/python";

/** Returns the nearest folder above the code that contains the files of the platform. */
function rootAbove(folder: string): string {
  if (existsSync(join(folder, pythonRuntime))) return folder;
  if (dirname(folder) === folder) throw new Error(`${pythonRuntime} is missing`);
  return rootAbove(dirname(folder));
}

/** The root of the checkout, or of the npm package. */
const root = rootAbove(import.meta.dirname);

/** The absolute paths of the folders. */
export const ownFiles = {
  /** The built dashboard, written by tools/dashboard.mjs. */
  dashboard: join(root, "dashboard/dist"),
  /** The pages of the API's documentation. */
  apiPages: join(root, "server/src/api/pages"),
  migrations: join(root, "server/src/store/migrations"),
  /** Programs of the process driver in Python. */
  zygoteScripts: join(root, "server/src/drivers/process/scripts"),
  /** The runtime of cortex apps. */
  pythonRuntime: join(root, pythonRuntime),
} as const;
