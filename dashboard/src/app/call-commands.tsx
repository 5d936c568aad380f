// Commands and programs that call an app, to be copied.
import { useState, type ReactNode } from "react";
import { SegmentedControl } from "@mantine/core";
import { Copyable } from "#parts/show.tsx";
import {
  callText,
  kinds,
  languages,
  type CalledApp,
  type Kind,
  type Language,
} from "./call-texts.ts";

/** The text for the chosen kind of call and language. */
export function Commands(app: CalledApp): ReactNode {
  const [kind, setKind] = useState<Kind>("Plain");
  const [language, setLanguage] = useState<Language>("curl");
  return (
    <>
      <div className="choices">
        <SegmentedControl
          size="xs"
          aria-label="Kind of call"
          data={[...kinds]}
          value={kind}
          onChange={(value) => setKind(kinds.find((one) => one === value) ?? "Plain")}
        />
        <SegmentedControl
          size="xs"
          aria-label="Language"
          data={[...languages]}
          value={language}
          onChange={(value) => setLanguage(languages.find((one) => one === value) ?? "curl")}
        />
      </div>
      <Copyable
        label={language === "curl" ? "curl command" : `${language} program`}
        text={callText({ kind, language }, app)}
      />
      <p className="muted">
        {app.isOpen ? "" : "TOKEN is a key for calling apps: see the project's page API keys. "}
        {kind === "Async"
          ? "It is answered at once with a run id; the result is then among the runs."
          : ""}
      </p>
    </>
  );
}
