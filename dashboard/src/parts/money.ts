// Amounts of money, as a reader of the language writes them.

/** Whole millionths of the currency unit. Small amounts keep all digits. */
export function moneyText(micros: number, currency: string): string {
  const digits = micros !== 0 && Math.abs(micros) < 10_000 ? 6 : 2;
  return new Intl.NumberFormat(undefined, {
    style: "currency",
    currency,
    maximumFractionDigits: digits,
  }).format(micros / 1e6);
}

/** Whole hundredths of the currency unit. */
export function centsText(cents: number, currency: string): string {
  return moneyText(cents * 10_000, currency);
}
