// Ledger entries: the effect of one movement of money on one account.
import { negative, type Money } from "#lib/money.ts";

/**
 * promotions: what the platform has given away; coupon_credit: the credit it owes; receivable: what
 * a project owes it; revenue: what it has sold.
 */
export type Account = "promotions" | "coupon_credit" | "receivable" | "revenue";

/**
 * Debits are positive, credits negative. `applicationId` and `couponCode` are set only for
 * movements by coupons, else null.
 */
export type LedgerEntry = {
  readonly account: Account;
  readonly applicationId: string | null;
  readonly couponCode: string | null;
  readonly amount: Money;
};

/** Two entries that move an amount, which may be negative, from one account to another. */
export function move(
  amount: Money,
  movement: { from: Account; to: Account } & Pick<LedgerEntry, "applicationId" | "couponCode">,
): LedgerEntry[] {
  const { from, to, applicationId, couponCode } = movement;
  const credit = negative(amount);
  return [
    { account: to, applicationId, couponCode, amount },
    { account: from, applicationId, couponCode, amount: credit },
  ];
}
