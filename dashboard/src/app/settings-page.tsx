// Every setting of an app with its value and its origin. A changed one is first tried without
// effect, so that the page says what the change takes before it is made.
import { useState, type ReactNode } from "react";
import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { List } from "#parts/list.tsx";
import { SearchField } from "#parts/search-field.tsx";
import { Answer, useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { appQuery } from "#queries.ts";
import { useApp } from "./app-frame.tsx";
import { SettingForm, type ChangeDone } from "./setting-form.tsx";
import { fieldOf, listedSettings } from "./setting-order.ts";

type Setting = { readonly value: unknown; readonly origin: string; readonly pending?: unknown };

const origins: Readonly<Record<string, string>> = {
  api: "set here or by the API",
  config_toml: "sent TOML file",
  repository: "file in the repository",
  default: "default",
};

const changes: Readonly<Record<string, string>> = {
  live: "at once",
  replica: "new replicas",
  build: "a new build",
  fixed: "cannot be changed",
};

/** A value as it is shown. */
export function valueText(value: unknown): string {
  if (value === null || value === undefined || value === "") return "–";
  if (Array.isArray(value)) return value.length === 0 ? "–" : value.map(String).join(", ");
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The page. */
export function SettingsPage(): ReactNode {
  const ref = useApp();
  const app = useQuery(appQuery(ref));
  const { search = "" } = useSearch({ strict: false });
  const [done, setDone] = useState<ChangeDone | null>(null);
  const [edited, setEdited] = useState<string | null>(null);
  const mayChange = useMay(ref.project)("apps.update");
  useTitle("Settings", ref.app);
  return (
    <>
      <SearchField />
      <p role="status">{done === null ? "" : <Done of={done} />}</p>
      <Answer of={app}>
        {({ settings }) => (
          <List
            label="Settings"
            columns={["Setting", "Value", "Origin", "A change takes", ""]}
            empty="No setting has this text."
            rows={listedSettings(settings, search).map(([name, setting]) => ({
              key: name,
              cells: [
                <Name key="name" name={name} />,
                edited === name ? (
                  <SettingForm
                    key="form"
                    name={name}
                    field={fieldOf(name)}
                    value={setting.pending ?? setting.value}
                    onDone={(change) => {
                      setDone(change);
                      setEdited(null);
                    }}
                    onCancel={() => setEdited(null)}
                  />
                ) : (
                  <Value key="value" of={setting} />
                ),
                origins[setting.origin] ?? setting.origin,
                changes[fieldOf(name)?.change ?? ""] ?? "a new build",
                mayChange && edited !== name && isEditable(name) ? (
                  <Button
                    key="edit"
                    variant="default"
                    size="compact-xs"
                    onClick={() => setEdited(name)}
                    aria-label={`Change ${name}`}
                  >
                    Change
                  </Button>
                ) : null,
              ],
            }))}
          />
        )}
      </Answer>
    </>
  );
}

function isEditable(name: string): boolean {
  const field = fieldOf(name);
  return field !== undefined && field.change !== "fixed";
}

function Name({ name }: { readonly name: string }): ReactNode {
  return (
    <div className="setting">
      <code>{name}</code>
      <p className="muted">{fieldOf(name)?.about ?? "From a file in the repository only."}</p>
    </div>
  );
}

function Value({ of: { value, pending } }: { readonly of: Setting }): ReactNode {
  return (
    <div className="setting">
      <span className="mono">{valueText(value)}</span>
      {pending === undefined ? null : (
        <p className="attention">{valueText(pending)} is on its way</p>
      )}
    </div>
  );
}

function Done({ of: { message, buildId } }: { readonly of: ChangeDone }): ReactNode {
  const ref = useApp();
  return (
    <>
      {message}{" "}
      {buildId === null ? null : (
        <Link to="/projects/$project/apps/$app/builds/$build" params={{ ...ref, build: buildId }}>
          See the build
        </Link>
      )}
    </>
  );
}
