// `slipway login`: signs a person in on this machine, by a code that they confirm in a browser.
import { fieldsOf, textOf, type Fields } from "./answer.ts";
import { ApiClient, ApiRefused } from "./api-client.ts";
import { command } from "./command.ts";
import { namedUrl, projectsOf, urlAtHome } from "./connection.ts";
import type { Machine } from "./machine.ts";
import { output } from "./output.ts";
import { personOf } from "./person.ts";
import { plain } from "./plain-text.ts";
import { Refused } from "./refused.ts";
import { keepToken } from "./stored-token.ts";
import { readSignIns, signInFile, writeSignIn } from "./sign-ins.ts";

type Asked = {
  readonly deviceCode: string;
  readonly userCode: string;
  readonly page: string;
  readonly intervalMs: number;
  readonly lifeMs: number;
};

type Tokens = { readonly accessToken: string; readonly refreshToken: string };

/** RFC 8628, 3.5: added to the polling interval when the platform answers slow_down. */
const slowerMs = 5_000;
/** The upper bound of the polling interval, whatever the platform answers. */
const lifeMsMax = 30 * 60_000;

/** The command that signs in, in a browser or with a token. */
export const login = command({
  name: "login",
  about: `Sign in: shows a code and waits until you have approved it in a browser. Requires a terminal.
With --token, the token of a service account is read from standard input and stored instead: slipway login --token < file.
In scripts and CI, set SLIPWAY_TOKEN to the token of a service account, which stores nothing.`,
  examples: ["login", "login --url https://slipway.example.org", "login --token < token.txt"],
  options: {
    token: { value: null, about: "Store a service account's token, read from standard input." },
    url: {
      value: "<url>",
      about: `URL of the platform. Default: SLIPWAY_URL, the last one used, or ${urlAtHome}.`,
    },
  },
  async run(given, machine) {
    if (!given.has("token")) refuseWithoutPerson(machine);
    const url = namedUrl(given, machine) ?? readSignIns(machine).current ?? urlAtHome;
    warnOfPlainHttp(url, machine);
    if (given.has("token"))
      await keepToken({ url, token: await givenToken(machine), label }, machine);
    else {
      const client = new ApiClient({ url, machine, bearer: () => Promise.resolve(null) });
      await keep(url, await approvedTokens(client, machine), machine);
    }
    const { email, project } = readSignIns(machine).platforms[url] ?? {};
    output(given, machine, { url, email, project }, () => undefined);
  },
});

const label = "a service account";
/** Far longer than any token. */
const tokenLengthMax = 10_000;

/** Not an argument: other users of the machine can see those. */
async function givenToken(machine: Machine): Promise<string> {
  if (machine.isInteractive) machine.tell("Paste the token, then press Enter and Ctrl-D:");
  let text = "";
  for await (const part of process.stdin.setEncoding("utf8")) {
    text += part;
    if (text.length > tokenLengthMax) break;
  }
  const token = text.trim();
  if (/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token) && token.length <= tokenLengthMax) return token;
  throw new Refused(
    "Standard input has no token of a service account: three parts with dots between them.",
    {
      exitCode: 2,
    },
  );
}

function refuseWithoutPerson(machine: Machine): void {
  if (machine.isInteractive) return;
  throw new Refused(
    "slipway login requires a terminal, because a person has to sign in.\n" +
      "In scripts and CI, set SLIPWAY_TOKEN to the token of a service account, and SLIPWAY_URL to the platform's URL.",
  );
}

/** True for URLs of this machine, whose traffic nobody else can read. */
function warnOfPlainHttp(url: string, machine: Machine): void {
  const { protocol, hostname } = new URL(url);
  if (protocol === "https:" || /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)) return;
  machine.tell(
    `Warning: ${url} is not encrypted. Anyone on the network path can read your tokens and act as you.\n`,
  );
}

async function approvedTokens(client: ApiClient, machine: Machine): Promise<Tokens> {
  const asked = await begin(client);
  machine.tell(`Open this page in a browser:\n\n  ${asked.page}\n`);
  machine.tell(
    `Check that it shows this code:\n\n  ${asked.userCode}\n\nWaiting for your approval …`,
  );
  const endMs = performance.now() + asked.lifeMs;
  let { intervalMs } = asked;
  for (;;) {
    const answer = await ask(client, asked.deviceCode);
    if (typeof answer !== "string") return answer;
    if (answer === "slow_down") intervalMs += slowerMs;
    if (performance.now() + intervalMs >= endMs) throw notApproved("expired_token");
    await new Promise((resolve) => setTimeout(resolve, intervalMs));
  }
}

async function begin(client: ApiClient): Promise<Asked> {
  const answer = fieldsOf(
    await client.ask({ method: "POST", path: "/device-authorization", body: {} }),
  );
  const asked = fieldsOf(answer["deviceAuthResponsePayload"]);
  return {
    deviceCode: textOf(asked, "device_code"),
    userCode: plain(textOf(asked, "user_code")),
    page: plain(textOf(asked, "verification_uri_complete")),
    intervalMs: secondsOf(asked, "interval", 5) * 1000,
    lifeMs: Math.min(secondsOf(asked, "expires_in", 600) * 1000, lifeMsMax),
  };
}

function secondsOf(fields: Fields, name: string, otherwise: number): number {
  const value = fields[name];
  return typeof value === "number" && value >= 1 ? value : otherwise;
}

/** The tokens, or the information that there are none yet. */
async function ask(
  client: ApiClient,
  deviceCode: string,
): Promise<Tokens | "authorization_pending" | "slow_down"> {
  try {
    const answer = fieldsOf(
      await client.ask({ method: "POST", path: "/token", body: { device_code: deviceCode } }),
    );
    return {
      accessToken: textOf(answer, "accessToken"),
      refreshToken: textOf(answer, "refreshToken"),
    };
  } catch (error) {
    const code = error instanceof ApiRefused ? codeOf(error.body) : undefined;
    if (code === "authorization_pending" || code === "slow_down") return code;
    if (code === undefined) throw error;
    throw notApproved(code, error);
  }
}

function codeOf(body: unknown): string | undefined {
  const error =
    typeof body === "object" && body !== null && "error" in body ? body.error : undefined;
  return typeof error === "string" ? error : undefined;
}

function notApproved(code: string, cause?: unknown): Refused {
  return new Refused(whyNotApproved(code), { cause });
}

function whyNotApproved(code: string): string {
  switch (code) {
    case "access_denied":
      return "The sign-in was denied in the browser.";
    case "expired_token":
      return "The code was not approved in time. Try again: slipway login";
    default:
      return "The sign-in can no longer be completed. Try again: slipway login";
  }
}

async function keep(url: string, tokens: Tokens, machine: Machine): Promise<void> {
  const client = new ApiClient({ url, machine, bearer: () => Promise.resolve(tokens.accessToken) });
  const { email } = await personOf(client);
  const projects = await projectsOf({ client });
  const before = readSignIns(machine).platforms[url]?.project;
  const project = projects.find(({ id }) => id === before) ?? projects[0];
  writeSignIn(machine, url, { ...tokens, email, project: project?.id ?? null });
  machine.tell(`\nSigned in to ${url} as ${plain(email)}.`);
  if (project === undefined)
    machine.tell("You are not a member of any project yet. Ask a project owner to invite you.");
  else machine.tell(`Commands use the project ${plain(project.name)} (${project.id}).`);
  if (projects.length > 1) machine.tell("To select another one: slipway projects use <project>");
  machine.tell(`Saved in ${signInFile(machine)}, which only you can read.`);
  if ((machine.environment["SLIPWAY_TOKEN"] ?? "") !== "") {
    machine.tell(
      "SLIPWAY_TOKEN is set: commands use it instead of this sign-in, until you unset it.",
    );
  }
}
