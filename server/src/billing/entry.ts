// Ledger entries: the effect of one movement of money on one account.
import { negative, type Money } from "#lib/money.ts";

/**
 * `promotions`: discounts that the platform has given; `coupon_credit`: credit that it still owes;
 * `receivable`: the debts of projects; `revenue`: the sales of the platform.
 */
export type Account = "promotions" | "coupon_credit" | "receivable" | "revenue";

/**
 * An entry: a debit has a positive amount, a credit a negative one. `applicationId` and
 * `couponCode` are set only for movements by coupons, else null.
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
