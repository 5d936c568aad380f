// Numbers with units, as people read them. Pure.

/** Bytes as text, such as `1.5 MB`; a kilobyte has 1000 bytes. */
export function bytesText(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"] as const;
  const power = Math.min(
    units.length - 1,
    Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)),
  );
  const value = bytes / 1000 ** power;
  return `${power === 0 ? value : value.toFixed(1)} ${units[power]}`;
}

/** Hundredths of a currency as text, such as `12.50 USD`. */
export function moneyText(cents: number, currency: string): string {
  return `${(cents / 100).toFixed(2)} ${currency}`;
}

/** Seconds as hours in text, such as `1.25 h`. */
export function hoursText(seconds: number): string {
  return `${(seconds / 3600).toFixed(2)} h`;
}
