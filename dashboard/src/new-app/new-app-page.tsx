// A new app from a repository, with all settings that the API takes. What the contract does not
// allow is said before anything is sent, and what the platform refuses beside the field that it
// names.
import { useMemo, useState, type ReactNode } from "react";
import { Button } from "@mantine/core";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { fieldNames, type FieldName } from "@slipway/contract/app-fields.ts";
import { api, ask, messageOf } from "#api.ts";
import { GitCredentials } from "#app/git-credentials.tsx";
import { useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { OtherWays } from "#project/first-app.tsx";
import { useBranches, type Branches } from "./branches.ts";
import { PriceLine } from "./price-line.tsx";
import { useRepositories } from "./repositories.ts";
import {
  FileSettings,
  useRepositorySettings,
  type RepositorySettings,
} from "./repository-settings.tsx";
import { readRepositoryAddress, suggestedName } from "./repository-address.ts";
import { ComputeField, fieldId, SettingField, type SettingsForm } from "./setting-fields.tsx";
import { bodyOf, fieldOfMessage, problemOf, type Texts } from "./setting-values.ts";
import { inheritedOf } from "./settings-list.tsx";
import { TomlBox } from "./toml-box.tsx";
import { readTomlSettings, type TomlContent } from "./toml-settings.ts";
import type { Variable } from "./env-lines.ts";
import { secretsOf, variablesProblem } from "./variable-values.ts";
import { Variables } from "./variables.tsx";

/** The groups of settings besides those that are always visible. */
const groups: readonly (readonly [string, readonly FieldName[]])[] = [
  [
    "Scaling and calls",
    [
      ...([
        "replicaConcurrency",
        "cooldownPeriodSeconds",
        "scalingMetric",
        "scalingTarget",
        "scalingBuffer",
      ] as const),
      ...([
        "evaluationIntervalSeconds",
        "loadBalancingAlgorithm",
        "responseGracePeriodSeconds",
        "retries",
      ] as const),
      ...(["deploymentInitializationTimeout", "rollOutDurationSeconds"] as const),
    ],
  ],
  [
    "Build and start",
    [
      ...([
        "pythonVersion",
        "useUv",
        "runtime",
        "entrypoint",
        "port",
        "healthcheckEndpoint",
      ] as const),
      ...([
        "readycheckEndpoint",
        "keepPathPrefix",
        "dockerfilePath",
        "baseImage",
        "dockerAuth",
        "buildSecrets",
        "containerRuntime",
        "storagePath",
      ] as const),
      ...(["logLevel", "gitAutoDeploy", "gitSubmodules", "gitLfs", "partialUpload"] as const),
    ],
  ],
  [
    "Access and location",
    [
      "disableAuth",
      "corsOrigins",
      "corsHeaders",
      "corsCredentials",
      "egressCidrs",
      "computeTier",
      "provider",
      "region",
    ],
  ],
];

const inSight: readonly FieldName[] = [
  ...(["gitRepo", "gitBranch", "gitPath", "name", "compute", "gpuCount", "cpu", "memory"] as const),
  ...(["minReplicaCount", "maxReplicaCount", "config_toml", "cliVersion"] as const),
];
const grouped = new Set([...inSight, ...groups.flatMap(([, names]) => names)]);
/** What the table has beside what is named here. */
const rest = fieldNames.filter((name) => !grouped.has(name));
const allGroups = rest.length === 0 ? groups : [...groups, ["Other settings", rest] as const];

/** The page. */
export function NewAppPage(): ReactNode {
  const { project = "" } = useParams({ strict: false });
  const mayCreate = useMay(project)("apps.create");
  useTitle("New app", project);
  return (
    <>
      <h1>New app</h1>
      {mayCreate ? (
        <div className="columns">
          <NewApp project={project} />
          <aside>
            <h2>Without a repository</h2>
            <OtherWays project={project} />
            <GitCredentials project={project} repository={null} />
          </aside>
        </div>
      ) : (
        <p className="muted">
          Your role does not allow you to create apps. Ask an owner or an admin of the project.
        </p>
      )}
    </>
  );
}

type Created = { readonly appId: string; readonly buildId: string };

type Draft = {
  readonly form: SettingsForm;
  readonly toml: TomlContent | null;
  readonly isNameInToml: boolean;
  readonly variables: readonly Variable[];
  readonly setVariables: (all: readonly Variable[]) => void;
  /** The field that cannot be sent as it is. */
  readonly wrong: () => FieldName | undefined;
  readonly check: () => void;
  readonly refuse: (field: FieldName, message: string) => void;
};

/** What is typed, from the address on. */
function useDraft(): Draft {
  const { repo = "", branch = "", path = "", name = "" } = useSearch({ strict: false });
  const [texts, setTexts] = useState<Texts>({
    gitRepo: repo,
    gitBranch: branch,
    gitPath: path,
    name,
  });
  const [refusals, setRefusals] = useState<Texts>({});
  const [isChecked, setChecked] = useState(false);
  const [isNameOwn, setNameOwn] = useState(name !== "");
  const [variables, setVariables] = useState<readonly Variable[]>([]);
  const tomlText = texts.config_toml ?? "";
  const toml = useMemo(
    () => (tomlText.trim() === "" ? null : readTomlSettings(tomlText)),
    [tomlText],
  );
  const isNameInToml = toml?.settings.some((one) => one.name === "name") === true;
  const change = (field: FieldName, text: string): void => {
    if (field === "name") setNameOwn(text !== "");
    setTexts((before) => withText(before, { field, text, isNameOwn }));
    setRefusals(({ [field]: _gone, ...others }) => others);
  };
  const wrong = (): FieldName | undefined => {
    if ((texts.gitRepo ?? "") === "") return "gitRepo";
    if ((texts.name ?? "") === "" && !isNameInToml) return "name";
    return fieldNames.find((field) => problemOf(field, texts[field] ?? "") !== "");
  };
  return {
    form: { texts, refusals, isChecked, change },
    toml,
    isNameInToml,
    variables,
    setVariables,
    wrong,
    check: () => setChecked(true),
    refuse: (field, message) => setRefusals({ [field]: message }),
  };
}

/** Shows a field, wherever it is. */
function showField(field: FieldName): void {
  const input = document.getElementById(fieldId(field));
  const details = input?.closest("details");
  if (details) details.open = true;
  input?.focus();
}

type Sending = {
  readonly error: string;
  readonly isWaiting: boolean;
  /** An app whose variables could not be set. */
  readonly created: Created | null;
  readonly submit: () => Promise<void>;
};

function useSending(project: string, { form, variables, wrong, check, refuse }: Draft): Sending {
  const navigate = useNavigate();
  const [created, setCreated] = useState<Created | null>(null);
  const [error, setError] = useState("");
  const [isWaiting, setWaiting] = useState(false);
  const send = async (): Promise<void> => {
    const params = { path: { project_id: project } };
    // The table of fields says which value a name takes, and both sides check it.
    const body = bodyOf(form.texts) as { gitRepo: string };
    const made =
      created ?? (await ask(api.POST("/v2/projects/{project_id}/apps/git", { params, body })));
    setCreated(made);
    const { appId, buildId } = made;
    const secrets = secretsOf(variables);
    if (Object.keys(secrets).length > 0) {
      const of = { path: { project_id: project, app_id: appId } };
      await ask(
        api.PATCH("/v2/projects/{project_id}/apps/{app_id}/secrets", { params: of, body: secrets }),
      );
    }
    const to = "/projects/$project/apps/$app/builds/$build";
    await navigate({ to, params: { project, app: appId, build: buildId } });
  };
  const onRefusal = (message: string): void => {
    const field = message.includes("config_toml") ? "config_toml" : fieldOfMessage(message);
    if (field === null) return setError(message);
    refuse(field, message);
    showField(field);
  };
  const submit = async (): Promise<void> => {
    if (isWaiting) return;
    check();
    setError("");
    const field = created === null ? wrong() : undefined;
    if (field !== undefined) return showField(field);
    if (variablesProblem(variables) !== "") return setError("See the environment variables.");
    setWaiting(true);
    await send().catch((cause: unknown) => onRefusal(messageOf(cause)));
    setWaiting(false);
  };
  return { error, isWaiting, created, submit };
}

function NewApp({ project }: { readonly project: string }): ReactNode {
  const draft = useDraft();
  const { error, isWaiting, created, submit } = useSending(project, draft);
  const { toml, isNameInToml, variables, setVariables } = draft;
  const branches = useBranches(project, draft.form.texts.gitRepo ?? "");
  const { folders, file } = useRepositorySettings(
    project,
    draft.form,
    branches.offer.values.length > 0,
  );
  const inherited = inheritedOf([
    ["TOML file", toml],
    // A name in the repository is read too late: the app has one before its first build.
    [
      file?.name ?? "",
      file && { ...file, settings: file.settings.filter(({ name }) => name !== "name") },
    ],
  ]);
  const form = { ...draft.form, inherited };
  return (
    <form
      aria-label="New app"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <Source
        project={project}
        form={form}
        branches={branches}
        folders={folders}
        isNameInToml={isNameInToml}
      />
      {file === null ? null : <FileSettings form={form} file={file} toml={toml} />}
      <Hardware form={form} />
      <PriceLine form={form} files={[toml, file]} />
      <MoreSettings form={form} toml={toml} />
      <h2>Environment variables</h2>
      <p className="muted">
        Stored encrypted, as secrets of the app; they override those of the project. Lines such as{" "}
        <code>NAME=value</code> can be pasted into the first field.
      </p>
      <Variables all={variables} onChange={setVariables} />
      <p className="error" role="alert">
        {error}
      </p>
      {created !== null && error !== "" ? (
        <p>
          The app was created, but its variables were not set.{" "}
          <Link to="/projects/$project/apps/$app/secrets" params={{ project, app: created.appId }}>
            Set them on its page
          </Link>
          , or try again.
        </p>
      ) : null}
      <Button type="submit" aria-disabled={isWaiting}>
        {created === null ? "Create and deploy" : "Try again"}
      </Button>
    </form>
  );
}

type MoreProps = { readonly form: SettingsForm; readonly toml: TomlContent | null };

function MoreSettings({ form, toml }: MoreProps): ReactNode {
  return (
    <>
      {allGroups.map(([label, names]) => (
        <details key={label} className="more">
          <summary>
            {label} <Count form={form} of={names} />
          </summary>
          <div className="fields">
            {names.map((field) => (
              <SettingField key={field} form={form} name={field} />
            ))}
          </div>
        </details>
      ))}
      <details className="more">
        <summary>
          Settings from a TOML file {(form.texts.config_toml ?? "") === "" ? null : <b>set</b>}
        </summary>
        <p className="muted">
          A <code>slipway.toml</code> or <code>cerebrium.toml</code> in the folder of the repository
          has its effect by itself, where nothing is set here. Dependencies and build commands can
          only come from such a file.
        </p>
        <TomlBox form={form} content={toml} />
      </details>
    </>
  );
}

/**
 * A pasted address of a folder fills three fields, and the name follows until somebody types one.
 */
function withText(
  before: Texts,
  {
    field,
    text,
    isNameOwn,
  }: { readonly field: FieldName; readonly text: string; readonly isNameOwn: boolean },
): Texts {
  const read = field === "gitRepo" ? readRepositoryAddress(text) : { [field]: text };
  const next: Texts = { ...before, ...read };
  if (isNameOwn || (field !== "gitRepo" && field !== "gitPath")) return next;
  return {
    ...next,
    name: suggestedName({ gitRepo: next.gitRepo ?? "", gitPath: next.gitPath ?? "" }),
  };
}

type SourceProps = Pick<RepositorySettings, "folders"> & {
  readonly project: string;
  readonly form: SettingsForm;
  readonly branches: Branches;
  readonly isNameInToml: boolean;
};

function Source({ project, form, branches, folders, isNameInToml }: SourceProps): ReactNode {
  const repositories = useRepositories(project, form.texts.gitRepo ?? "");
  return (
    <>
      <h2>Source</h2>
      <div className="fields">
        <SettingField
          form={form}
          name="gitRepo"
          label="Repository"
          hint="owner/repo, or its address as you copy it from its page."
          placeholder="acme/app"
          isRequired
          offer={{ ...repositories, note: branches.problem || repositories.note }}
        />
        <SettingField form={form} name="gitBranch" label="Branch" offer={branches.offer} />
        <SettingField
          form={form}
          name="gitPath"
          label="Folder in the repository"
          placeholder="the root of the repository"
          offer={folders}
        />
        <SettingField
          form={form}
          name="name"
          label="Name of the app"
          hint="3 to 30 lowercase letters, digits and dashes. It cannot be changed later."
          placeholder={isNameInToml ? "as in the TOML file" : "my-app"}
          isRequired={!isNameInToml}
        />
      </div>
    </>
  );
}

function Hardware({ form }: { readonly form: SettingsForm }): ReactNode {
  const compute = form.texts.compute ?? "";
  const isOnCpu = compute === "" ? form.inherited?.compute === undefined : compute === "CPU";
  return (
    <>
      <h2>Replicas</h2>
      <div className="fields">
        <ComputeField form={form} />
        {isOnCpu ? null : <SettingField form={form} name="gpuCount" />}
        <SettingField form={form} name="cpu" hint="Cores of a replica." />
        <SettingField form={form} name="memory" hint="GB of a replica." />
        <SettingField
          form={form}
          name="minReplicaCount"
          hint="How many always run; 0 scales to zero."
        />
        <SettingField form={form} name="maxReplicaCount" hint="How many run at most." />
      </div>
    </>
  );
}

function Count({
  form,
  of,
}: {
  readonly form: SettingsForm;
  readonly of: readonly FieldName[];
}): ReactNode {
  const count = of.filter((name) => (form.texts[name] ?? "") !== "").length;
  return count === 0 ? null : <b>{count} set</b>;
}
