// What the app is expected to cost by the hour, from the platform's prices and what is set so far.
import type { ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { appFields, type FieldName } from "@slipway/contract/app-fields.ts";
import { counted } from "#parts/quantities.ts";
import { hourlyPrice, moneyText } from "./price.ts";
import { hardwareQuery, problemIn, type SettingsForm } from "./setting-fields.tsx";
import { valueOf } from "./setting-values.ts";
import type { TomlContent } from "./toml-settings.ts";

type PriceLineProps = {
  readonly form: SettingsForm;
  /** The one that comes first before the others; null: not there, or not known. */
  readonly files: readonly (TomlContent | null)[];
};

/** The line. */
export function PriceLine({ form, files }: PriceLineProps): ReactNode {
  const hardware = useQuery(hardwareQuery).data?.items;
  if (hardware === undefined || hardware.length === 0) return null;
  const given = (name: FieldName): unknown => {
    const text = form.texts[name] ?? "";
    if (text !== "") return problemIn(form, name) === undefined ? valueOf(name, text) : undefined;
    const all = files.flatMap((file) => file?.settings ?? []);
    return all.find((one) => one.name === name && one.problem === "")?.value;
  };
  const numberOf = (name: FieldName, otherwise: number): number => {
    const value = given(name);
    return typeof value === "number" ? value : otherwise;
  };
  const textOf = (name: FieldName): string | null => {
    const value = given(name);
    return typeof value === "string" ? value : null;
  };
  const compute = [given("compute") ?? appFields.compute.default].flat().map(String);
  const price = hourlyPrice(hardware, {
    compute,
    cpu: numberOf("cpu", appFields.cpu.default),
    memoryGb: numberOf("memory", appFields.memory.default),
    gpuCount: numberOf("gpuCount", 1),
    provider: textOf("provider"),
    region: textOf("region"),
  });
  if (price === null) {
    return (
      <p className="attention">
        This platform has no {compute.join(" or ")} as it is set here: replicas would not start.
      </p>
    );
  }
  const replicasMin = numberOf("minReplicaCount", appFields.minReplicaCount.default);
  const replicasMax = numberOf("maxReplicaCount", appFields.maxReplicaCount.default);
  const isProtected = textOf("computeTier") === "protected";
  return (
    <section className="price" aria-label="Estimated price">
      <p>
        <strong>{rangeText(price.min, price.max)}</strong> per hour and replica, while it runs.
      </p>
      <p className="muted">
        {counted(replicasMin, "replica")} to{" "}
        {counted(Math.max(replicasMin, replicasMax), "replica")}:{" "}
        {rangeText(price.min * replicasMin, price.max * Math.max(replicasMin, replicasMax))} per
        hour.{" "}
        {isProtected ? "These are prices of the tier interruptible; protected costs more. " : ""}
        Before coupons.
      </p>
    </section>
  );
}

function rangeText(min: number, max: number): string {
  return min === max ? moneyText(min) : `${moneyText(min)} to ${moneyText(max)}`;
}
