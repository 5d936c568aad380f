// Bounds the log file of a platform that `slipway up` runs, which is its standard error: loaded
// into the platform's process with `--import`. A log that has become too large is kept beside the
// file as `.1`, and begins anew. `?file=` is the path of the file.
import { copyFileSync, fstatSync, ftruncateSync } from "node:fs";

const given = new URL(import.meta.url).searchParams;
const file = given.get("file") ?? "";
const bytesMax = Number(given.get("bytes") ?? 50_000_000);
const lookEveryMs = Number(given.get("everyMs") ?? 10_000);
const standardError = 2;

setInterval(() => {
  try {
    if (fstatSync(standardError).size <= bytesMax) return;
    copyFileSync(file, `${file}.1`);
    // The file is open for appending, so that the next line is its first.
    ftruncateSync(standardError);
  } catch {
    // Such as a full disk: the next look tries again.
  }
}, lookEveryMs).unref();
