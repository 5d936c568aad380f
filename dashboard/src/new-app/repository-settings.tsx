// The settings file of the repository that is typed: which folders have one, and what it sets, as a build would read it.
import { useState, type ReactNode } from "react";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { fieldNames, type FieldName } from "@slipway/contract/app-fields.ts";
import { api, ask, messageOf } from "#api.ts";
import { counted } from "#parts/show.tsx";
import { pauseMs } from "./branches.ts";
import type { Offer, SettingsForm } from "./setting-fields.tsx";
import { rowOf } from "./setting-values.ts";
import { SettingsList } from "./settings-list.tsx";
import type { TomlContent } from "./toml-settings.ts";

/** The file and what it sets. */
export type RepositoryFile = TomlContent & { readonly name: string; readonly warnings: readonly string[] };

/** The folders to choose from, and the file of the one that is typed; null: there is none, or nobody knows yet. */
export type RepositorySettings = { readonly folders: Offer; readonly file: RepositoryFile | null };

const none: RepositorySettings = { folders: { values: [], note: "" }, file: null };

/** `isKnown`: its branches are known, so that it can be read. */
export function useRepositorySettings(project: string, { texts }: SettingsForm, isKnown: boolean): RepositorySettings {
  const { gitRepo = "", gitBranch = "", gitPath = "" } = texts;
  const typed = JSON.stringify([gitRepo, gitBranch, gitPath]);
  const [settled] = useDebouncedValue(typed, pauseMs);
  const isAsked = isKnown && settled === typed;
  const { data, error, isFetching } = useQuery({
    queryKey: ["repository-settings", project, settled],
    queryFn: ({ signal }) => {
      const query = { gitRepo, ...(gitBranch === "" ? {} : { gitBranch }), ...(gitPath === "" ? {} : { gitPath }) };
      const params = { path: { project_id: project }, query };
      return ask(api.GET("/v2/projects/{project_id}/git-repositories/settings", { params, signal }));
    },
    enabled: isAsked,
    retry: false,
    staleTime: 60_000,
    refetchOnWindowFocus: false,
  });
  if (!isAsked) return none;
  if (isFetching) return { ...none, folders: { values: [], note: "Looking for settings files …" } };
  if (data === undefined) return { ...none, folders: { values: [], note: error === null ? "" : messageOf(error) } };
  const values = data.folders.filter((folder) => folder !== "");
  const { file } = data;
  if (file === null) {
    const where = data.folders.length === 0 ? "" : ` Folders that have one: ${counted(data.folders.length, "folder")}.`;
    return {
      folders: { values, note: `No settings file here: what is set below counts, else the defaults.${where}` },
      file,
    };
  }
  const settings = file.settings.map(({ name, value, problem }) => {
    const field = fieldNames.find((one) => one === name) ?? null;
    return { path: (field === null ? null : rowOf(field).toml) ?? name, name: field, value, problem: problem ?? "" };
  });
  const read = { settings, unknown: [], problem: file.problem ?? "", name: file.name, warnings: file.warnings };
  return { folders: { values, note: `This folder has a ${file.name}.` }, file: read };
}

type FileProps = { readonly form: SettingsForm; readonly file: RepositoryFile; readonly toml: TomlContent | null };

/** What the file sets, behind its headline; open where a build would refuse something of it. */
export function FileSettings({ form, file, toml }: FileProps): ReactNode {
  const { name, settings, problem, warnings } = file;
  const wrong = settings.filter((one) => one.problem !== "" && overrideOf(form, toml, one.name) === "").length;
  const isWrong = problem !== "" || wrong > 0;
  // It opens by itself for what is wrong, and stays open when that is mended.
  const [isOpen, setOpen] = useState(false);
  return (
    <details className="more" open={isWrong || isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        Settings of {name} in the repository{" "}
        <b>
          {counted(settings.length, "setting")}
          {isWrong ? ", a build would refuse it" : ""}
        </b>
      </summary>
      <p className="muted">
        They have their effect by themselves, and again with each push. What is set on this page comes before them.
      </p>
      {warnings.map((warning) => (
        <p key={warning} className="attention">
          {warning}
        </p>
      ))}
      <SettingsList
        label={`Settings of ${name}`}
        content={file}
        overrideOf={(field) => overrideOf(form, toml, field)}
      />
    </details>
  );
}

/** What comes before the file; "": nothing does. */
function overrideOf({ texts }: SettingsForm, toml: TomlContent | null, name: FieldName | null): string {
  if (name === null) return "";
  if ((texts[name] ?? "") !== "") return "overridden on this page";
  return toml?.settings.some((one) => one.name === name) === true ? "overridden by the TOML file below" : "";
}
