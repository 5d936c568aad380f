// Lets one `slipway up` at a time start the platform of a data folder. The kernel keeps the lock
// (SQLite's own lock of an empty file), so that it ends with its process in every case.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { errorMessage } from "./error-message.ts";
import { Refused } from "./refused.ts";

/** SQLite's result code for a lock that another process holds. */
const busy = 5;

/** Ends the turn; null: another process has it. Makes the data folder. Throws `Refused`. */
export async function takeTurn(dataDir: string): Promise<(() => void) | null> {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    const { DatabaseSync } = await import("node:sqlite");
    const lock = new DatabaseSync(join(dataDir, "up.lock"), { timeout: 0 });
    try {
      lock.exec("begin immediate");
      return () => lock.close();
    } catch (error) {
      lock.close();
      if (error instanceof Error && "errcode" in error && error.errcode === busy) return null;
      throw error;
    }
  } catch (error) {
    const why = errorMessage(error);
    throw new Refused(`The data folder ${dataDir} cannot be made or written: ${why}.`, {
      cause: error,
    });
  }
}
