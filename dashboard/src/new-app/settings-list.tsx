// What a settings file sets, with the default of each and what counts instead.
import type { ReactNode } from "react";
import type { FieldName } from "@slipway/contract/app-fields.ts";
import { List } from "#parts/list.tsx";
import { defaultText, rowOf, type Texts } from "./setting-values.ts";
import type { TomlContent, TomlSetting } from "./toml-settings.ts";

type SettingsListProps = {
  readonly label: string;
  readonly content: TomlContent;
  /** What comes before a setting of the file; "": nothing does. */
  readonly overrideOf: (name: FieldName | null) => string;
};

/** The settings, and what is wrong with the file. */
export function SettingsList({ label, content, overrideOf }: SettingsListProps): ReactNode {
  const { settings, unknown, problem } = content;
  return (
    <div>
      <div role="status">
        {problem === "" ? null : <p className="error">{problem}</p>}
        {unknown.length === 0 ? null : (
          <p className="attention">
            Unknown and without effect: {unknown.map(shortText).join(", ")}.
          </p>
        )}
      </div>
      {settings.length === 0 ? null : (
        <List
          label={label}
          columns={["Setting", "Value", "Default", "Effect"]}
          rows={settings.map((setting) => ({
            key: `${setting.path} ${setting.name}`,
            cells: cellsOf(setting, overrideOf(setting.name)),
          }))}
        />
      )}
    </div>
  );
}

function cellsOf(setting: TomlSetting, override: string): readonly ReactNode[] {
  const { path, name } = setting;
  return [
    <code key="path" title={name === null ? undefined : rowOf(name).about}>
      {path}
    </code>,
    <span key="value" className="mono toml-value">
      {valueText(setting)}
    </span>,
    <span key="default" className="muted toml-value">
      {name === null ? "none" : defaultText(name)}
    </span>,
    effectOf(setting, override),
  ];
}

function effectOf({ problem }: TomlSetting, override: string): ReactNode {
  if (override !== "") {
    return (
      <span key="effect" className="muted">
        {override}
      </span>
    );
  }
  if (problem === "") return "set by the file";
  return (
    <span key="effect" className="error toml-value">
      {problem}
    </span>
  );
}

const shownLength = 80;

function shortText(text: string): string {
  return text.length > shownLength ? `${text.slice(0, shownLength)}…` : text;
}

/** The value of a setting, as far as it fits a line; a secret is not shown. */
function valueText({ name, value }: TomlSetting): string {
  if (name !== null && "isSecret" in rowOf(name)) return "(secret)";
  if (typeof value === "string") return shortText(value);
  if (Array.isArray(value) && value.every((one) => typeof one === "string"))
    return shortText(value.join(", "));
  return shortText(
    JSON.stringify(value, (_key, one: unknown) => (typeof one === "bigint" ? String(one) : one)) ??
      "",
  );
}

/**
 * What counts of the files where nothing is typed, by field; the first file that sets it. Without
 * those that a build refuses.
 */
export function inheritedOf(files: readonly (readonly [string, TomlContent | null])[]): Texts {
  const all = files.flatMap(([file, content]) =>
    (content?.settings ?? []).flatMap((setting) =>
      setting.name === null || setting.problem !== ""
        ? []
        : [[setting.name, `${file}: ${valueText(setting)}`] as const],
    ),
  );
  return Object.fromEntries(all.toReversed());
}
