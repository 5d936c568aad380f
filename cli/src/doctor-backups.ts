// The check of `slipway doctor` on the scheduled backups of the platform of this machine. The
// platform notes in its data folder how the last one ended.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fieldsOf, textOf, textOrNull } from "./answer.ts";
import type { Finding } from "./doctor-docker.ts";
import { findInstallation } from "./installation.ts";
import type { Machine } from "./machine.ts";
import { plain } from "./plain-text.ts";
import { sinceText } from "./since.ts";

const guide = "docs/guides/backup-and-restore.md";

/** Whether the last scheduled backup succeeded, and how old the newest one is. */
export function backupsCheck(machine: Machine): Finding {
  const noted = readNoted(machine);
  if (noted === null)
    return { state: "ok", about: `none were scheduled yet: SLIPWAY_BACKUP_TO (${guide})` };
  const fields = fieldsOf(noted);
  const last = textOrNull(fields, "last");
  const failure = textOrNull(fields, "failure");
  const nowMs = Date.now();
  const newest = last === null ? "there is none" : `the newest was begun ${sinceText(last, nowMs)}`;
  if (failure === null) return { state: "ok", about: newest };
  const since = sinceText(textOf(fields, "at"), nowMs);
  return {
    state: "warning",
    about: `the last one failed ${since}: ${plain(failure)} And ${newest}.`,
    todo: `The platform tries again every 10 minutes. Try it by hand: slipway backup (${guide})`,
  };
}

/** Null: no backup was scheduled here, or this user may not read it. */
function readNoted(machine: Machine): unknown {
  try {
    return JSON.parse(readFileSync(join(findInstallation(machine).dataDir, "backup.json"), "utf8"));
  } catch {
    return null;
  }
}
