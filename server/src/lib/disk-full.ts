// Recognizes errors of a full or read-only disk, whether they come from the system, the database or
// a program. Also writes sizes for people.

/** The codes of the system, and the SQLSTATE of a full disk. */
const codes = new Set(["ENOSPC", "EDQUOT", "EROFS", "53100"]);
const messageForm =
  /No space left on device|Disk quota exceeded|Read-only file system|database or disk is full/;
/** How many nested causes are looked at: causes could form a circle. */
const causesMax = 5;

/** Whether the error or one of its causes says that nothing can be written. */
export function isDiskFull(error: unknown, depth = 0): boolean {
  if (!(error instanceof Error)) return false;
  if ("code" in error && codes.has(String(error.code))) return true;
  if (messageForm.test(error.message)) return true;
  return depth < causesMax && isDiskFull(error.cause, depth + 1);
}

/** The message for callers of the platform. */
export const diskFullText =
  "The platform's disk is full (or not writable), so nothing can be stored at the moment; its operator has to free up space. Try again after that.";
/** Seconds until a retry makes sense. */
export const diskFullRetrySeconds = 30;

/** Returns a size for people, such as `1.5 GB`, `20 MB` or `3 kB`. */
export function sizeText(bytes: number): string {
  if (bytes > 0 && bytes < 1e6) return `${Math.ceil(bytes / 1e3)} kB`;
  const gb = bytes / 1e9;
  if (gb >= 10) return `${gb.toFixed(0)} GB`;
  // Below 10 GB there is one decimal, unless it is 0, which `Number` drops.
  if (gb >= 1) return `${Number(gb.toFixed(1))} GB`;
  return `${Math.max(0, Math.round(bytes / 1e6))} MB`;
}
