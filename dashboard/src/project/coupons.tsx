// The coupons that a project has applied, and a form to apply one.
import { useState, type ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { api, ask } from "#api.ts";
import { FieldForm } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { centsText } from "#parts/money.ts";
import { Name } from "#parts/name.tsx";
import { Answer, State, Time } from "#parts/show.tsx";
import { queryClient } from "#queries.ts";

const couponsPath = "/v2/projects/{project_id}/billing/coupons";

/** The list. */
export function Coupons({ project }: { readonly project: string }): ReactNode {
  const coupons = useQuery({
    queryKey: ["coupons", project],
    queryFn: ({ signal }) =>
      ask(api.GET(couponsPath, { params: { path: { project_id: project } }, signal })),
  });
  return (
    <Answer of={coupons}>
      {({ items }) => (
        <List
          label="Coupons"
          columns={[
            "Name",
            "Code",
            "State",
            "Applied",
            "Expires",
            { head: "Left", isNumber: true },
          ]}
          empty="No coupon is applied."
          rows={items.map((coupon) => ({
            key: `${coupon.code} ${coupon.applied_at}`,
            cells: [
              <Name key="name" of={coupon.name} isStrong />,
              <code key="code" className="name">
                {coupon.code}
              </code>,
              <State key="state" of={coupon.status} />,
              <Time key="applied" at={coupon.applied_at} />,
              coupon.expiration_at === undefined ? (
                "never"
              ) : (
                <Time key="expires" at={coupon.expiration_at} />
              ),
              coupon.percentage_rate === undefined
                ? centsText(coupon.amount_cents_balance, coupon.amount_currency)
                : `${coupon.percentage_rate} %`,
            ],
          }))}
        />
      )}
    </Answer>
  );
}

/** The form. */
export function ApplyCoupon({ project }: { readonly project: string }): ReactNode {
  const [round, setRound] = useState(0);
  return (
    <div className="narrow">
      <FieldForm
        key={round}
        label="Apply a coupon"
        submit="Apply coupon"
        fields={[
          {
            name: "code",
            label: "Coupon code",
            autoComplete: "off",
            spellCheck: false,
            required: true,
          },
        ]}
        onSubmit={async ({ code = "" }) => {
          const params = { path: { project_id: project } };
          await ask(
            api.POST(`${couponsPath}/apply`, { params, body: { coupon_code: code.trim() } }),
          );
          setRound(round + 1);
          await Promise.all(
            ["coupons", "cost"].map((name) => queryClient.invalidateQueries({ queryKey: [name] })),
          );
        }}
      />
    </div>
  );
}
