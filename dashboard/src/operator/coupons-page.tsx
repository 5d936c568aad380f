// The coupons of the platform: list, create, end.
import { useState, type ReactNode } from "react";
import { Checkbox, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { couponFields } from "@slipway/contract/billing-fields.ts";
import { api, ask } from "#api.ts";
import { Confirm } from "#parts/confirm.tsx";
import { FieldForm, type FormField } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { PageButtons, pagesInOrder, useGoToPage } from "#parts/page-buttons.tsx";
import { Answer, State, Time, useTitle } from "#parts/show.tsx";
import { queryClient } from "#queries.ts";

const couponsPath = "/v2/operator/coupons";

async function changed(): Promise<void> {
  await queryClient.invalidateQueries({ queryKey: ["coupons"] });
}

function readCoupons(page: string | undefined, signal: AbortSignal) {
  return ask(api.GET(couponsPath, { params: { query: { nextToken: page } }, signal }));
}

/** The page. */
export function CouponsPage(): ReactNode {
  const { page } = useSearch({ strict: false });
  const goTo = useGoToPage();
  const coupons = useQuery({
    queryKey: ["coupons", page],
    queryFn: ({ signal }) => readCoupons(page, signal),
    placeholderData: (before) => before,
  });
  useTitle("Coupons", "Operator");
  return (
    <>
      <h1>Coupons</h1>
      <Answer of={coupons}>
        {({ items, nextToken }) => (
          <>
            <List
              label="Coupons"
              columns={[
                "Code",
                "Name",
                { head: "Discount", isNumber: true },
                "Applies",
                "Used",
                "Plans",
                "Until",
                "State",
                "",
              ]}
              empty="No coupons yet."
              rows={items.map((coupon) => ({
                key: `${coupon.code} ${coupon.created_at}`,
                cells: cellsOf(coupon),
              }))}
            />
            <PageButtons page={page} nextToken={nextToken} goTo={goTo} names={pagesInOrder} />
          </>
        )}
      </Answer>
      <NewCoupon />
    </>
  );
}

type Coupon = Awaited<ReturnType<typeof readCoupons>>["items"][number];

/** One cell for each column of the list. */
function cellsOf(coupon: Coupon): ReactNode[] {
  const { code, name, uses, plans } = coupon;
  const { frequency, frequency_duration: months, max_uses: usesMax } = coupon;
  const { expiration_at: expiresAt, ended_at: endedAt } = coupon;
  return [
    <code key="code">{code}</code>,
    <bdi key="name">{name}</bdi>,
    discountText(coupon),
    months === null ? frequency : `${months} months`,
    usesMax === null ? String(uses) : `${uses} of ${usesMax}`,
    plans?.join(", ") ?? "all",
    expiresAt === null ? "–" : <Time key="until" at={expiresAt} />,
    <State key="state" of={stateOf(coupon)} />,
    endedAt === null ? (
      <Confirm
        key="end"
        what="End"
        to={code}
        note="Nobody can apply it any more; projects that have applied it keep it."
        onAct={() => end(code)}
      />
    ) : null,
  ];
}

async function end(code: string): Promise<void> {
  await ask(api.DELETE(`${couponsPath}/{code}`, { params: { path: { code } } }));
  await changed();
}

type Discount = {
  readonly amount_cents: number | null;
  readonly amount_currency: string | null;
  readonly percentage_rate: number | null;
};

function discountText({
  amount_cents: cents,
  amount_currency: currency,
  percentage_rate: rate,
}: Discount): string {
  return cents === null ? `${rate} %` : `${(cents / 100).toFixed(2)} ${currency}`;
}

function stateOf(coupon: {
  readonly ended_at: string | null;
  readonly expiration_at: string | null;
}): string {
  if (coupon.ended_at !== null) return "ended";
  return coupon.expiration_at !== null && Date.parse(coupon.expiration_at) < Date.now()
    ? "expired"
    : "active";
}

function field(
  name: keyof typeof couponFields,
  label: string,
  more: Partial<FormField> = {},
): FormField {
  return {
    name,
    label,
    hint: couponFields[name].about,
    autoComplete: "off",
    spellCheck: false,
    ...more,
  };
}

/** What is to be filled in, by kind of discount and by how often it applies. */
function fieldsOf(type: string, frequency: string): FormField[] {
  const amount = [
    field("amount_cents", "Amount in hundredths", { required: true }),
    field("amount_currency", "Currency", { required: true, defaultValue: "USD" }),
  ];
  const percentage = [field("percentage_rate", "Percent", { required: true })];
  const months = [field("frequency_duration", "Months", { required: true })];
  return [
    field("code", "Code", { required: true, autoCapitalize: "none" }),
    field("name", "Name", { required: true }),
    ...(type === "fixed_amount" ? amount : percentage),
    ...(frequency === "recurring" ? months : []),
    field("max_uses", "Uses at most"),
    field("expiration_at", "Expires", { placeholder: "2027-01-31T12:00:00Z" }),
    field("plans", "Plans", { hint: `${couponFields.plans.about} Separated by commas.` }),
  ];
}

function NewCoupon(): ReactNode {
  const [type, setType] = useState("fixed_amount");
  const [frequency, setFrequency] = useState("once");
  const [isReusable, setReusable] = useState(false);
  const [round, setRound] = useState(0);
  const [made, setMade] = useState("");
  return (
    <section className="narrow">
      <h2>New coupon</h2>
      <p role="status">{made}</p>
      <FieldForm
        key={round}
        label="New coupon"
        submit="Create coupon"
        before={
          <>
            <NativeSelect
              label="Kind"
              value={type}
              data={[
                { value: "fixed_amount", label: "an amount" },
                { value: "percentage", label: "a percentage" },
              ]}
              onChange={({ currentTarget }) => setType(currentTarget.value)}
            />
            <NativeSelect
              label="Applies"
              description={couponFields.frequency.about}
              value={frequency}
              data={[...couponFields.frequency.choices]}
              onChange={({ currentTarget }) => setFrequency(currentTarget.value)}
            />
          </>
        }
        fields={fieldsOf(type, frequency)}
        more={
          <Checkbox
            size="xs"
            label="One project may apply it repeatedly"
            checked={isReusable}
            onChange={({ currentTarget }) => setReusable(currentTarget.checked)}
          />
        }
        onSubmit={async (values) => {
          const body = bodyOf({ ...values, coupon_type: type, frequency }, isReusable);
          const { code } = await ask(api.POST(couponsPath, { body }));
          await changed();
          setMade(`${code} can be applied now.`);
          setRound(round + 1);
        }}
      />
    </section>
  );
}

type CouponBody = {
  readonly code: string;
  readonly name: string;
  readonly coupon_type: "fixed_amount" | "percentage";
  readonly reusable?: boolean;
};

/** Numbers as numbers; what is no number goes as it is, so that the platform says what is wrong. */
function bodyOf(values: Readonly<Record<string, string>>, reusable: boolean): CouponBody {
  const numbers = new Set(["amount_cents", "percentage_rate", "frequency_duration", "max_uses"]);
  const entries = Object.entries(values).flatMap(([name, text]): [string, unknown][] => {
    if (text === "") return [];
    if (name === "plans") return [[name, text.split(",").map((one) => one.trim())]];
    return [[name, numbers.has(name) && Number.isFinite(Number(text)) ? Number(text) : text]];
  });
  // The contract checks it on the platform.
  return { ...(Object.fromEntries(entries) as CouponBody), reusable };
}
