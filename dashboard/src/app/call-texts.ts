// What calls an app in a shell, in Python and in JavaScript: whole programs without further
// packages. Pure; the token is for the reader to put in.

/** How an app can be called. */
export const kinds = ["Plain", "Streamed", "Async"] as const;
export type Kind = (typeof kinds)[number];

/** Languages that are usual where apps are called. */
export const languages = ["curl", "Python", "JavaScript"] as const;
export type Language = (typeof languages)[number];

/** What of an app decides how it is called. */
export type CalledApp = {
  /** The address of its endpoint; no character of it needs a quote anywhere. */
  readonly url: string;
  /** It takes calls without a token. */
  readonly isOpen: boolean;
  /** It is a server of its own, whose paths nobody knows here. */
  readonly isCustom: boolean;
};

type Call = {
  readonly url: string;
  readonly hasToken: boolean;
  readonly hasBody: boolean;
  readonly kind: Kind;
};

/** The command or program. */
export function callText(
  { kind, language }: { readonly kind: Kind; readonly language: Language },
  { url, isOpen, isCustom }: CalledApp,
): string {
  const call: Call = {
    url: `${url}/${isCustom ? "" : "run"}${kind === "Async" ? "?async=true" : ""}`,
    hasToken: !isOpen,
    hasBody: !isCustom || kind === "Async",
    kind,
  };
  const lines = { curl: curlLines, Python: pythonLines, JavaScript: javaScriptLines }[language](
    call,
  );
  return lines.join("\n");
}

function curlLines({ url, hasToken, hasBody, kind }: Call): string[] {
  const parts = [
    `curl ${kind === "Streamed" ? "-sN" : "-s"} '${url}'`,
    ...(hasToken ? [`  -H "Authorization: Bearer $TOKEN"`] : []),
    ...(hasBody ? ["  -H 'Content-Type: application/json'", "  -d '{}'"] : []),
  ];
  return parts.map((part, index) => (index === parts.length - 1 ? part : `${part} \\`));
}

function pythonLines({ url, hasToken, hasBody, kind }: Call): string[] {
  const headers = [
    ...(hasToken ? [`"Authorization": "Bearer " + os.environ["TOKEN"]`] : []),
    ...(hasBody ? [`"Content-Type": "application/json"`] : []),
  ];
  return [
    [
      ...(hasBody || kind === "Async" ? ["json"] : []),
      ...(hasToken ? ["os"] : []),
      "urllib.request",
    ]
      .map((name) => `import ${name}`)
      .join("\n"),
    "",
    "request = urllib.request.Request(",
    `    "${url}",`,
    ...(hasBody ? ["    data=json.dumps({}).encode(),"] : []),
    ...(headers.length === 0
      ? []
      : ["    headers={", ...headers.map((header) => `        ${header},`), "    },"]),
    ")",
    "with urllib.request.urlopen(request) as response:",
    ...(kind === "Streamed"
      ? [
          "    while chunk := response.read1():",
          `        print(chunk.decode(), end="", flush=True)`,
        ]
      : [
          kind === "Async"
            ? `    print(json.load(response)["run_id"])`
            : "    print(response.read().decode())",
        ]),
  ];
}

function javaScriptLines({ url, hasToken, hasBody, kind }: Call): string[] {
  const headers = [
    ...(hasToken ? ["authorization: `Bearer ${process.env.TOKEN}`"] : []),
    ...(hasBody ? [`"content-type": "application/json"`] : []),
  ];
  const options = [
    ...(hasBody ? [`  method: "POST",`] : []),
    ...(headers.length === 0
      ? []
      : ["  headers: {", ...headers.map((header) => `    ${header},`), "  },"]),
    ...(hasBody ? ["  body: JSON.stringify({}),"] : []),
  ];
  return [
    ...(options.length === 0
      ? [`const response = await fetch("${url}");`]
      : [`const response = await fetch("${url}", {`, ...options, "});"]),
    ...(kind === "Streamed"
      ? [
          "for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {",
          "  process.stdout.write(chunk);",
          "}",
        ]
      : [
          kind === "Async"
            ? "console.log((await response.json()).run_id);"
            : "console.log(await response.text());",
        ]),
  ];
}
