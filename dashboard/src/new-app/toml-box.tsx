// A TOML file that is sent with the request: pasted as text, with a list of what it sets and what
// counts instead.
import type { ReactNode } from "react";
import { Textarea } from "@mantine/core";
import type { SettingsForm } from "./setting-fields.tsx";
import { SettingsList } from "./settings-list.tsx";
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
      {content === null ? null : (
        <SettingsList
          label="Settings of the TOML file"
          content={content}
          overrideOf={(name) =>
            name !== null && (form.texts[name] ?? "") !== "" ? "overridden above" : ""
          }
        />
      )}
    </>
  );
}
