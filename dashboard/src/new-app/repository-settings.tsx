// The settings file of the repository that is typed: which folders have one, and what it sets, as a
// build would read it.
import { useState, type ReactNode } from "react";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { fieldNames, type FieldName } from "@slipway/contract/app-fields.ts";
import { api, ask, messageOf } from "#api.ts";
import { counted } from "#parts/quantities.ts";
import { pauseMs } from "./branches.ts";
import type { Offer, SettingsForm } from "./setting-fields.tsx";
import { rowOf } from "./setting-values.ts";
import { SettingsList } from "./settings-list.tsx";
import type { TomlContent } from "./toml-settings.ts";

/** The file and what it sets. */
export type RepositoryFile = TomlContent & {
  readonly name: string;
  readonly warnings: readonly string[];
};

/**
 * The folders to choose from, and the file of the one that is typed; null: there is none, or nobody
 * knows yet.
 */
export type RepositorySettings = { readonly folders: Offer; readonly file: RepositoryFile | null };

const none: RepositorySettings = { folders: { values: [], note: "" }, file: null };

/** `isKnown`: its branches are known, so that it can be read. */
export function useRepositorySettings(
  project: string,
  { texts }: SettingsForm,
  isKnown: boolean,
): RepositorySettings {
  const { gitRepo = "", gitBranch = "", gitPath = "" } = texts;
  const typed = JSON.stringify([gitRepo, gitBranch, gitPath]);
  const [settled] = useDebouncedValue(typed, pauseMs);
  const isAsked = isKnown && settled === typed;
  const { data, error, isFetching } = useQuery({
    queryKey: ["repository-settings", project, gitRepo, settled],
    queryFn: ({ signal }) => {
      const query = {
        gitRepo,
        ...(gitBranch === "" ? {} : { gitBranch }),
        ...(gitPath === "" ? {} : { gitPath }),
      };
      const params = { path: { project_id: project }, query };
      return ask(
        api.GET("/v2/projects/{project_id}/git-repositories/settings", { params, signal }),
      );
    },
    enabled: isAsked,
    // The page does not jump while another folder is read.
    placeholderData: (before, query) => (query?.queryKey[2] === gitRepo ? before : undefined),
    retry: false,
    staleTime: 60_000,
    refetchOnWindowFocus: false,
  });
  if (!isKnown) return none;
  const isWaiting = isFetching || settled !== typed;
  if (error !== null && !isWaiting)
    return { ...none, folders: { values: [], note: messageOf(error) } };
  if (data === undefined)
    return { ...none, folders: { values: [], note: "Looking for settings files …" } };
  const values = data.folders.filter((folder) => folder !== "");
  const { file } = data;
  const more = data.hasMore ? " There are more folders than are offered." : "";
  if (file === null) {
    const offer = values.length === 0 ? "" : " The field offers the folders that have one.";
    const docker = data.hasDockerfile
      ? " There is a Dockerfile: to have the app built from it, set dockerfilePath to Dockerfile below, under Build and start."
      : "";
    const note = `No settings file here: what is set below counts, else the defaults.${docker}${offer}${more}`;
    return { folders: { values, note: isWaiting ? "Looking for settings files …" : note }, file };
  }
  const settings = file.settings.map(({ name, value, problem }) => {
    const field = fieldNames.find((one) => one === name) ?? null;
    return {
      path: (field === null ? null : rowOf(field).toml) ?? name,
      name: field,
      value,
      problem: problem ?? "",
    };
  });
  const read = {
    settings,
    unknown: [],
    problem: file.problem ?? "",
    name: file.name,
    warnings: file.warnings,
  };
  const note = isWaiting
    ? "Looking for settings files …"
    : `This folder has a ${file.name}.${more}`;
  return { folders: { values, note }, file: read };
}

type FileProps = {
  readonly form: SettingsForm;
  readonly file: RepositoryFile;
  readonly toml: TomlContent | null;
};

/** What the file sets, behind its headline; open where a build would refuse something of it. */
export function FileSettings({ form, file, toml }: FileProps): ReactNode {
  const { name, settings, problem, warnings } = file;
  const isOverridden = settings.some((one) => overrideOf(form, toml, one.name) !== "");
  const isWrong = settings.some(
    (one) => one.problem !== "" && overrideOf(form, toml, one.name) === "",
  );
  // How its settings contradict each other may be resolved by what comes before them.
  const isRefused = isWrong || (problem !== "" && !isOverridden);
  // It opens by itself for what is wrong, and stays open when that is mended.
  const [isOpen, setOpen] = useState(false);
  return (
    <details
      className="more"
      open={isRefused || isOpen}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>
        Settings of {name} in the repository{" "}
        <b>
          {[
            ...(settings.length === 0 ? [] : [counted(settings.length, "setting")]),
            ...(isRefused ? ["a build would refuse it"] : []),
          ].join(", ")}
        </b>
      </summary>
      <p className="muted">
        They have their effect by themselves, and again with each push. What is set on this page
        comes before them.
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
function overrideOf(
  { texts }: SettingsForm,
  toml: TomlContent | null,
  name: FieldName | null,
): string {
  if (name === null) return "";
  if (name === "name") return "the name has to be set on this page";
  if ((texts[name] ?? "") !== "") return "overridden on this page";
  return toml?.settings.some((one) => one.name === name) === true
    ? "overridden by the TOML file below"
    : "";
}
