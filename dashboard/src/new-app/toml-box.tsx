// A TOML file that is sent with the request: pasted as text, with a list of what it sets and what counts instead.
import type { ReactNode } from "react";
import { Textarea } from "@mantine/core";
import { List } from "#parts/list.tsx";
import type { SettingsForm } from "./setting-fields.tsx";
import type { TomlContent } from "./toml-settings.ts";

type TomlBoxProps = { readonly form: SettingsForm; readonly content: TomlContent | null };

/** The text and what it sets. */
export function TomlBox({ form, content }: TomlBoxProps): ReactNode {
  return (
    <>
      <Textarea
        id="setting-config_toml"
        label="TOML file"
        description="The text of a slipway.toml or cerebrium.toml. What is set above comes before it; it comes before the file in the repository."
        className="code-input"
        rows={8}
        autoComplete="off"
        spellCheck={false}
        value={form.texts.config_toml ?? ""}
        error={form.refusals.config_toml}
        onChange={({ currentTarget }) => form.change("config_toml", currentTarget.value)}
      />
      {content === null ? null : <Content form={form} content={content} />}
    </>
  );
}

function Content({ form, content }: { readonly form: SettingsForm; readonly content: TomlContent }): ReactNode {
  const { settings, unknown, problem } = content;
  return (
    <div role="status">
      {problem === "" ? null : <p className="error">{problem}</p>}
      {unknown.length === 0 ? null : (
        <p className="attention">Unknown and without effect: {unknown.map(shortText).join(", ")}.</p>
      )}
      {settings.length === 0 ? null : (
        <List
          label="Settings of the TOML file"
          columns={["Key", "Setting", "Value", "Effect"]}
          rows={settings.map(({ path, name, value, problem: why }) => ({
            key: `${path} ${name}`,
            cells: [
              <code key="path">{path}</code>,
              name === null ? "" : <code key="name">{name}</code>,
              <span key="value" className="mono toml-value">
                {shortText(valueText(value))}
              </span>,
              why !== "" ? (
                <span key="why" className="error toml-value">
                  {why}
                </span>
              ) : name !== null && (form.texts[name] ?? "") !== "" ? (
                "overridden above"
              ) : (
                "set"
              ),
            ],
          }))}
        />
      )}
    </div>
  );
}

const shownLength = 80;

function shortText(text: string): string {
  return text.length > shownLength ? `${text.slice(0, shownLength)}…` : text;
}

function valueText(value: unknown): string {
  if (typeof value === "string") return value;
  return JSON.stringify(value, (_key, one: unknown) => (typeof one === "bigint" ? String(one) : one)) ?? "";
}
