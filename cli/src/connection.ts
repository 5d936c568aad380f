// Resolves which platform, which credentials and which project a command uses: from its options,
// then the environment, then the sign-in stored by `slipway login`.
import { closestName } from "@slipway/server/src/lib/closest-name.ts";
import { listOf, textOf, fieldsOf } from "./answer.ts";
import { ApiClient, ApiRefused, type Bearer } from "./api-client.ts";
import { tokenEndMs, tokenProject } from "./claims.ts";
import type { Given, Option } from "./command.ts";
import type { Machine } from "./machine.ts";
import { plain } from "./plain-text.ts";
import { exitCodes, misuse, Refused } from "./refused.ts";
import {
  isOfServiceAccount,
  readSignIns,
  renewSignIn,
  writeSignIn,
  type SignIn,
} from "./sign-ins.ts";

/** Options of every command that talks to a platform. */
export const platformOptions = {
  url: {
    value: "<url>",
    about: "URL of the platform. Default: SLIPWAY_URL, or where you signed in last.",
  },
} as const satisfies Record<string, Option>;

/** Options of every command that works on one project. */
export const projectOptions = {
  project: {
    value: "<project>",
    about: "Project id or name. Default: SLIPWAY_PROJECT, or the selected project.",
  },
  ...platformOptions,
} as const satisfies Record<string, Option>;

/** The default URL of a platform on this machine. */
export const urlAtHome = "http://127.0.0.1:7070";

/** A token is renewed a little before it expires, since clocks differ. */
const renewEarlierMs = 60_000;

/** A platform and the caller's credentials. */
export type Connection = {
  readonly client: ApiClient;
  /** The stored sign-in; null: the token comes from SLIPWAY_TOKEN. */
  readonly signIn: SignIn | null;
  /** The token from the environment; null: there is a stored sign-in. */
  readonly token: string | null;
};

/** The URL that was given; null: none was. Throws `Refused` if it is not a valid platform URL. */
export function namedUrl(given: Given, machine: Machine): string | null {
  const option = given.text("url");
  if (option !== undefined) return checkedUrl("--url", option);
  const variable = machine.environment["SLIPWAY_URL"] ?? "";
  return variable === "" ? null : checkedUrl("SLIPWAY_URL", variable);
}

/**
 * The platform and the credentials. Throws `Refused` with a hint how to sign in when there are
 * none.
 */
export function connect(given: Given, machine: Machine): Connection {
  const signIns = readSignIns(machine);
  const url = namedUrl(given, machine) ?? signIns.current;
  const token = machine.environment["SLIPWAY_TOKEN"] ?? "";
  if (token !== "") {
    const at = url ?? urlAtHome;
    const bearer: Bearer = (isRenewed) => Promise.resolve(isRenewed ? null : token);
    const bearerHint = " This token comes from SLIPWAY_TOKEN.";
    return { client: new ApiClient({ url: at, machine, bearer, bearerHint }), signIn: null, token };
  }
  const signIn = url === null ? undefined : signIns.platforms[url];
  if (url === null || signIn === undefined) throw notSignedIn(url, Object.keys(signIns.platforms));
  if (isOfServiceAccount(signIn)) {
    const bearer: Bearer = (isRenewed) => Promise.resolve(isRenewed ? null : signIn.accessToken);
    const bearerHint = ` This token is the stored one of ${signIn.email}. Sign in again: slipway login --url ${url}`;
    return { client: new ApiClient({ url, machine, bearer, bearerHint }), signIn, token: null };
  }
  return {
    client: new ApiClient({ url, machine, bearer: bearerOf({ url, signIn, machine }) }),
    signIn,
    token: null,
  };
}

/**
 * The id of the project to work on. Asks the platform when a name was given, or when no project is
 * selected.
 */
export async function projectOf(
  connection: Connection,
  given: Given,
  machine: Machine,
): Promise<string> {
  const option = given.text("project");
  const variable = machine.environment["SLIPWAY_PROJECT"] ?? "";
  const named = option ?? (variable === "" ? undefined : variable);
  const known =
    connection.token === null
      ? (connection.signIn?.project ?? null)
      : tokenProject(connection.token);
  if (known !== null && (named === undefined || named === known)) return known;
  const projects = await projectsOf(connection);
  if (named !== undefined) return chosen(projects, named).id;
  const [only] = projects;
  if (only !== undefined && projects.length === 1) return only.id;
  if (only === undefined)
    throw new Refused(
      "You are not a member of any project yet. Make one: slipway projects create <name>. Or ask a project owner to invite you.",
    );
  const names = projects.map(({ name }) => name).join(", ");
  throw new Refused(
    `You are a member of several projects: ${names}. Use --project, or select one: slipway projects use <project>`,
  );
}

/** A project in the platform's list. */
export type Project = { readonly id: string; readonly name: string };

/** The caller's projects, by name. */
export async function projectsOf({ client }: Pick<Connection, "client">): Promise<Project[]> {
  const found = listOf(await client.get("/v2/projects")).map((one) => ({
    id: textOf(one, "id"),
    name: textOf(one, "name"),
  }));
  return found.toSorted(byName);
}

function byName(one: Project, other: Project): number {
  if (one.name < other.name) return -1;
  return one.name > other.name ? 1 : 0;
}

/**
 * The project with this id or name. Throws `Refused` when there is none, or when several have the
 * name.
 */
export function chosen(projects: readonly Project[], named: string): Project {
  const byId = projects.find(({ id }) => id === named);
  if (byId !== undefined) return byId;
  const byName = projects.filter(({ name }) => name === named);
  const [only] = byName;
  if (only === undefined) {
    const meant = closestName(
      named,
      projects.map(({ name }) => name),
    );
    const hint = meant === undefined ? "" : ` Did you mean ${plain(meant)}?`;
    throw new Refused(
      `You have no project "${plain(named)}".${hint} To list your projects: slipway projects`,
      {
        exitCode: exitCodes.notFound,
      },
    );
  }
  if (byName.length === 1) return only;
  throw new Refused(
    `Several projects are named "${named}". Use an id instead: ${byName.map(({ id }) => id).join(", ")}`,
  );
}

/** The API path of a resource of the project. */
export function projectPath(project: string, rest: string): string {
  return `/v2/projects/${encodeURIComponent(project)}${rest}`;
}

/** The stored access token, renewed when it is about to expire or the platform rejects it. */
function bearerOf({
  url,
  signIn,
  machine,
}: {
  url: string;
  signIn: SignIn;
  machine: Machine;
}): Bearer {
  let { accessToken } = signIn;
  const renewer = new ApiClient({ url, machine, bearer: () => Promise.resolve(null) });
  return async (isRenewed) => {
    if (!isRenewed && Date.now() < tokenEndMs(accessToken) - renewEarlierMs) return accessToken;
    accessToken = await renew(renewer, signIn, machine);
    renewSignIn(machine, url, { ...signIn, accessToken });
    return accessToken;
  };
}

async function renew(
  client: ApiClient,
  { refreshToken, email }: SignIn,
  machine: Machine,
): Promise<string> {
  const form = new URLSearchParams({ grant_type: "refresh_token", refresh_token: refreshToken });
  try {
    const answer = await client.ask({ method: "POST", path: "/v2/auth/token", body: form });
    return textOf(fieldsOf(answer), "access_token");
  } catch (error) {
    if (!(error instanceof ApiRefused) || (error.status !== 400 && error.status !== 401))
      throw error;
    // The session was revoked, ended by a changed password, or expired: the stored tokens are
    // useless now.
    writeSignIn(machine, client.url, null);
    throw new Refused(
      `The session of ${email} at ${client.url} has ended. Sign in again: slipway login`,
      {
        exitCode: exitCodes.denied,
        cause: error,
      },
    );
  }
}

function notSignedIn(url: string | null, others: readonly string[]): Refused {
  const where = url === null ? "" : ` at ${url}`;
  if (url === null && others.length > 0) {
    return new Refused(
      `No platform is selected since you signed out. You are signed in at ${others.join(", ")}: name it with --url or SLIPWAY_URL.`,
      { exitCode: exitCodes.denied },
    );
  }
  const how = url === null ? "slipway login --url <platform url>" : `slipway login --url ${url}`;
  return new Refused(
    `You are not signed in${where}. Sign in: ${how}\nIn scripts and CI, set SLIPWAY_TOKEN to the token of a service account instead.`,
    { exitCode: exitCodes.denied },
  );
}

function checkedUrl(name: string, given: string): string {
  let url: URL;
  try {
    url = new URL(given);
  } catch (error) {
    throw misuse(
      `${name} is "${given}", but must be a URL such as https://slipway.example.org.`,
      error,
    );
  }
  const isPlain =
    url.username === "" && url.password === "" && url.search === "" && url.hash === "";
  if (!/^https?:$/.test(url.protocol) || !isPlain) {
    // The URL is not shown: it may contain a password.
    throw misuse(`${name} must be a URL with http or https, without user, query or fragment.`);
  }
  return url.href.replace(/\/+$/, "");
}
