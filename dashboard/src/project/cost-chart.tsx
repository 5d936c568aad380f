// The cost of each day as bars. In a file of its own, because the charts are large and seldom
// looked at.
import type { ReactNode } from "react";
import { BarChart } from "@mantine/charts";
import "@mantine/charts/styles.css";

type CostChartProps = {
  readonly days: readonly { readonly day: string; readonly cost: number }[];
  readonly currency: string;
};

/** The chart. */
export function CostChart({ days, currency }: CostChartProps): ReactNode {
  const money = new Intl.NumberFormat(undefined, {
    style: "currency",
    currency,
    maximumFractionDigits: 4,
  });
  return (
    <div className="chart" role="img" aria-label="Cost of each day">
      <BarChart
        h={180}
        data={days.map((day) => ({ ...day }))}
        dataKey="day"
        series={[{ name: "cost", label: "Cost", color: "indigo.6" }]}
        valueFormatter={(value) => money.format(value)}
        gridAxis="x"
        tickLine="none"
        maxBarWidth={24}
      />
    </div>
  );
}
