// Durations, sizes and numbers in words. Pure.

/** A duration in at most two units. */
export function durationText(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  // What would be rounded up to 60.0 s is a minute.
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

/** A time that was used; a dash for none. */
export function usedTimeText(seconds: number): string {
  return seconds === 0 ? "–" : durationText(seconds * 1000);
}

/** A number of bytes. */
export function sizeText(bytes: number | null): string {
  if (bytes === null) return "";
  if (bytes < 1e6) return bytes < 1000 ? `${bytes} B` : `${(bytes / 1e3).toFixed(1)} kB`;
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
}

/** A number with what it counts, such as `1 core` and `2 cores`. */
export function counted(count: string | number, word: string): string {
  return `${count} ${word}${Number(count) === 1 ? "" : "s"}`;
}
