// Calls the app from the browser, with a token that is for calling apps, and shows the answer while
// it comes in. What the app answers is shown as text only.
import { useEffect, useRef, useState, type ReactNode } from "react";
import { Button, NativeSelect, Textarea, TextInput } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { ApiError } from "@slipway/client/client.ts";
import { api, ask } from "#api.ts";
import { chunksOf } from "#event-stream.ts";
import { textsOf, useRun } from "#parts/form.tsx";
import { durationText } from "#parts/quantities.ts";
import { shortId } from "#parts/show.tsx";
import { queryClient, type AppRef } from "#queries.ts";

type TryItProps = {
  readonly app: AppRef;
  readonly endpoint: string;
  readonly isOpen: boolean;
  readonly isCustom: boolean;
};

type Result = {
  readonly status: string;
  readonly runId: string | null;
  readonly text: string;
  readonly ms: number;
  readonly isOver: boolean;
};

/** More than anybody reads; what follows is left out. */
const lengthMax = 200_000;
const methods = ["POST", "GET", "PUT", "DELETE"];

/** The panel. */
export function TryIt({ app, endpoint, isOpen, isCustom }: TryItProps): ReactNode {
  const [key, setKey] = useState<CallKey | null>(null);
  const [needsToken, setNeedsToken] = useState(false);
  const [result, setResult] = useState<Result | null>(null);
  const { error, isWaiting, run } = useRun();
  const stop = useRef<AbortController | null>(null);
  useEffect(() => () => stop.current?.abort(), []);
  const send = async (form: HTMLFormElement): Promise<void> => {
    const { path = "", method = "POST", body = "", token: typed = "" } = textsOf(form);
    setResult(null);
    // Not before somebody calls: each reading of keys is an entry of the audit log.
    const found = isOpen || typed !== "" ? null : await callKeyOf(app.project);
    setKey(found);
    const token = found?.token ?? typed;
    if (!isOpen && token === "") return setNeedsToken(true);
    stop.current = new AbortController();
    const request = { url: new URL(endpoint).pathname + path, method, body, token };
    await callApp(request, { signal: stop.current.signal, onResult: setResult });
  };
  return (
    <form
      className="form try"
      aria-label="Try it"
      onSubmit={(event) => {
        event.preventDefault();
        const form = event.currentTarget;
        void run(() => send(form));
      }}
    >
      <Inputs isCustom={isCustom} needsToken={needsToken} />
      <p className="error" role="alert">
        {error}
      </p>
      <div className="row">
        <Button type="submit" aria-disabled={isWaiting}>
          Call
        </Button>
        {isWaiting ? (
          <Button variant="default" onClick={() => stop.current?.abort()}>
            Stop
          </Button>
        ) : null}
        {key === null ? null : <span className="muted">with the key {key.name}</span>}
      </div>
      <div role="status" aria-label="Answer">
        {result === null ? null : <Shown app={app} result={result} />}
      </div>
    </form>
  );
}

function Inputs({
  isCustom,
  needsToken,
}: {
  readonly isCustom: boolean;
  readonly needsToken: boolean;
}): ReactNode {
  return (
    <>
      <div className="row">
        <NativeSelect
          name="method"
          label="Method"
          data={methods}
          defaultValue={isCustom ? "GET" : "POST"}
        />
        <TextInput
          name="path"
          label="Path and query"
          className="grow"
          defaultValue={isCustom ? "/" : "/run"}
          autoComplete="off"
          spellCheck={false}
        />
      </div>
      <Textarea
        name="body"
        label="Body"
        rows={4}
        defaultValue={isCustom ? "" : "{}"}
        spellCheck={false}
        className="code-input"
      />
      {needsToken ? (
        <TextInput
          name="token"
          label="Token for calling apps"
          description="The project has none that you may see again. It is kept only as long as this page is open. Then call again."
          required
          type="password"
          autoComplete="off"
        />
      ) : null}
    </>
  );
}

function Shown({ app, result }: { readonly app: AppRef; readonly result: Result }): ReactNode {
  return (
    <>
      <p className="muted">
        {result.status}, {durationText(result.ms)}
        {result.isOver ? "" : " so far"}
        {result.runId === null ? null : (
          <>
            {", run "}
            <Link
              to="/projects/$project/apps/$app/logs"
              params={app}
              search={{ run: result.runId }}
            >
              {shortId(result.runId)}
            </Link>
          </>
        )}
      </p>
      <pre className="answer" tabIndex={0} aria-label="Answer of the app">
        {result.text}
      </pre>
    </>
  );
}

type CallKey = { readonly token: string; readonly name: string };

/** A key that may be shown again; null: there is none, or whoever looks may not see it. */
async function callKeyOf(project: string): Promise<CallKey | null> {
  try {
    const path = { project_id: project };
    const keys = await queryClient.query({
      queryKey: ["call-keys", project],
      queryFn: () => ask(api.GET("/v2/projects/{project_id}/api-keys", { params: { path } })),
      staleTime: Infinity,
    });
    const found = keys.find(({ apiKey }) => apiKey !== null);
    return found === undefined || found.apiKey === null
      ? null
      : { token: found.apiKey, name: found.name };
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return null;
    throw error;
  }
}

type AppCall = {
  readonly url: string;
  readonly method: string;
  readonly body: string;
  readonly token: string;
};
type Watcher = { readonly signal: AbortSignal; readonly onResult: (result: Result) => void };

async function callApp(
  { url, method, body, token }: AppCall,
  { signal, onResult }: Watcher,
): Promise<void> {
  const began = performance.now();
  const headers = {
    ...(token === "" ? {} : { authorization: `Bearer ${token}` }),
    ...(body === "" ? {} : { "content-type": "application/json" }),
  };
  let result: Result = { status: "No answer", runId: null, text: "", ms: 0, isOver: false };
  const show = (more: Partial<Result>): void => {
    result = { ...result, ...more, ms: performance.now() - began };
    onResult(result);
  };
  try {
    const sent = method === "GET" || body === "" ? {} : { body };
    const response = await fetch(url, {
      method,
      headers,
      ...sent,
      signal,
      cache: "no-store",
      credentials: "omit",
    });
    show({ status: `Status ${response.status}`, runId: response.headers.get("x-request-id") });
    if (response.body !== null) await readText(response.body, (text) => show({ text }));
    show({ isOver: true });
  } catch (error) {
    const why = signal.aborted
      ? "Stopped"
      : `Broken off: ${error instanceof Error ? error.message : String(error)}`;
    show({ status: `${result.status}. ${why}`, isOver: true });
  }
}

async function readText(
  body: ReadableStream<Uint8Array>,
  onText: (text: string) => void,
): Promise<void> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of chunksOf(body)) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > lengthMax) {
      onText(`${text.slice(0, lengthMax)}\n… the rest is not shown`);
      return;
    }
    onText(text);
  }
}
