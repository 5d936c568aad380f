// Inputs of settings, made from the contract's table of fields: what each one is for, its default,
// and what is wrong with what is typed, beside it.
import { useState, type ReactNode } from "react";
import { NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { FieldName } from "@slipway/contract/app-fields.ts";
import { computeTypes } from "@slipway/contract/app-choices.ts";
import type { Field } from "@slipway/contract/field.ts";
import { api, ask } from "#api.ts";
import { choicesOf } from "#parts/setting-choices.ts";
import { defaultText, listOf, problemOf, rowOf, type Texts } from "./setting-values.ts";

/** What is typed, what the platform refused, and how to change it. */
export type SettingsForm = {
  readonly texts: Texts;
  /** The platform's messages about refused values, by field. */
  readonly refusals: Texts;
  /** Fields whose text is wrong say so, even if nobody has typed there yet. */
  readonly isChecked: boolean;
  readonly change: (name: FieldName, text: string) => void;
  /** By field: what files set and counts where nothing is typed, with the name of the file. */
  readonly inherited?: Texts;
};

/**
 * Values to choose from, while others can be typed; `note` says how they were found, and is read
 * out when it changes.
 */
export type Offer = { readonly values: readonly string[]; readonly note: string };

/** The keys that a phone shows. */
function inputModeOf({ kind }: Field): "decimal" | "numeric" | undefined {
  if (kind === "number") return "decimal";
  return kind === "integer" ? "numeric" : undefined;
}

/** What counts where nothing is typed. */
function otherwise({ inherited }: SettingsForm, name: FieldName): string {
  return inherited?.[name] ?? `default: ${defaultText(name)}`;
}

type FieldProps = {
  readonly form: SettingsForm;
  readonly name: FieldName;
  readonly label?: string;
  readonly hint?: string;
  readonly placeholder?: string;
  readonly isRequired?: boolean;
  readonly offer?: Offer;
};

/** What the platform has, with prices. */
export const hardwareQuery = {
  queryKey: ["hardware"],
  queryFn: ({ signal }: { signal: AbortSignal }) => ask(api.GET("/v2/hardware", { signal })),
  staleTime: 60_000,
};

/** Why the field cannot be sent as it is; undefined: it can. */
export function problemIn({ texts, refusals }: SettingsForm, name: FieldName): string | undefined {
  return refusals[name] || problemOf(name, texts[name] ?? "") || undefined;
}

/** The input of one setting. */
export function SettingField({
  form,
  name,
  label = name,
  hint,
  placeholder,
  isRequired = false,
  offer,
}: FieldProps): ReactNode {
  const [wasLeft, setLeft] = useState(false);
  const row = rowOf(name);
  const text = form.texts[name] ?? "";
  const isMissing = isRequired && text === "" && form.isChecked;
  const said =
    form.refusals[name] ?? (wasLeft || form.isChecked ? problemIn(form, name) : undefined);
  const shared = {
    id: fieldId(name),
    label,
    value: text,
    description: hint ?? row.about,
    error: said ?? (isMissing ? `${label} is missing.` : undefined),
    onBlur: () => setLeft(true),
    onChange: ({ currentTarget: { value } }: { currentTarget: { value: string } }) =>
      form.change(name, value),
  };
  const choices = choicesOf(row);
  if (choices !== null) {
    return (
      <NativeSelect {...shared} data={[{ value: "", label: otherwise(form, name) }, ...choices]} />
    );
  }
  const input = (
    <TextInput
      {...shared}
      list={offer && `${fieldId(name)}-offer`}
      type={"isSecret" in row ? "password" : "text"}
      inputMode={inputModeOf(row)}
      autoComplete="off"
      spellCheck={false}
      required={isRequired}
      placeholder={form.inherited?.[name] ?? placeholder ?? otherwise(form, name)}
    />
  );
  if (offer === undefined) return input;
  return (
    <div>
      {input}
      <datalist id={`${fieldId(name)}-offer`}>
        {offer.values.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <p className="muted" role="status">
        {said === undefined ? offer.note : ""}
      </p>
    </div>
  );
}

/** The element of a field, for focusing it. */
export function fieldId(name: FieldName): string {
  return `setting-${name}`;
}

const typesMax = 5;

/** The compute types in order of priority: one, and others for when it is not free. */
export function ComputeField({ form }: { readonly form: SettingsForm }): ReactNode {
  const hardware = useQuery(hardwareQuery).data?.items ?? [];
  const chosen = listOf(form.texts.compute ?? "");
  const here = computeTypes.filter((type) => hardware.some(({ compute }) => compute === type));
  const elsewhere = computeTypes.filter((type) => !here.includes(type));
  const choose = (at: number, type: string): void => {
    const next = type === "" ? chosen.toSpliced(at, 1) : chosen.with(at, type);
    form.change("compute", [...new Set(next)].join(", "));
  };
  const add = (type: string): void =>
    form.change("compute", [...new Set([...chosen, type])].join(", "));
  const groups = (taken: readonly string[]) => [
    { group: "On this platform", items: here.filter((type) => !taken.includes(type)) },
    { group: "Not on this platform", items: elsewhere.filter((type) => !taken.includes(type)) },
  ];
  const [first] = chosen;
  const mayAdd = first !== undefined && first !== "CPU" && chosen.length < typesMax;
  return (
    <>
      <NativeSelect
        id={fieldId("compute")}
        label="compute"
        description="What replicas run on."
        error={problemIn(form, "compute")}
        value={first ?? ""}
        data={[{ value: "", label: otherwise(form, "compute") }, ...groups(chosen.slice(1))]}
        onChange={({ currentTarget: { value } }) =>
          first === undefined ? add(value) : choose(0, value)
        }
      />
      {chosen.slice(1).map((type, at) => (
        <NativeSelect
          key={type}
          label={`compute, choice ${at + 2}`}
          description="When those before are not free."
          value={type}
          data={[{ value: "", label: "none" }, ...groups(chosen.filter((one) => one !== type))]}
          onChange={({ currentTarget: { value } }) => choose(at + 1, value)}
        />
      ))}
      {mayAdd ? (
        <NativeSelect
          label={`compute, choice ${chosen.length + 1}`}
          description="When those before are not free."
          value=""
          data={[{ value: "", label: "none" }, ...groups(chosen)]}
          onChange={({ currentTarget: { value } }) => add(value)}
        />
      ) : null}
    </>
  );
}
