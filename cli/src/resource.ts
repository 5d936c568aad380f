// The three kinds of commands on things of a platform: list them, show one, do something to one.
// Each connects as the caller, finds project and app, and prints JSON or text. A wrong app name is
// answered with the one that was probably meant.
import { answerOf, type Client } from "@slipway/client/client.ts";
import { closestName } from "@slipway/server/src/lib/closest-name.ts";
import { ApiRefused, type ApiClient } from "./api-client.ts";
import { quoted } from "./call-example.ts";
import { command, type Command, type Given, type Operand, type Option } from "./command.ts";
import { connect, platformOptions, projectOptions, type Connection } from "./connection.ts";
import { appOfFolder, projectWith } from "./folder-app.ts";
import type { Machine } from "./machine.ts";
import { output } from "./output.ts";
import { plain } from "./plain-text.ts";
import { confirm, unneededYesOption, yesOption } from "./prompt.ts";
import { exitCodes, misuse, Refused } from "./refused.ts";
import { printFields, printTable, type Cell } from "./table.ts";

/** Where a command works, and what it was given. */
export type At = {
  readonly given: Given;
  readonly machine: Machine;
  readonly connection: Connection;
  readonly client: ApiClient;
  readonly api: Client;
  /**
   * The parameters in paths of the API. `app_id`: the operand `app` or the option `--app`; "" if
   * there is none.
   */
  readonly path: { readonly project_id: string; readonly app_id: string };
};

type Common = {
  readonly name: string;
  readonly about: string;
  readonly examples: readonly string[];
  /** `app`: its first operand is an app, by name or id. */
  readonly of: "app" | "project" | "platform";
  /** The app, where it is part of another operand. */
  readonly appOf?: (given: Given) => string;
  /** What to do about refusals, by their status; added to their messages. */
  readonly hints?: Readonly<Record<number, (at: At) => string>>;
  /** The app must be named: the one of the folder could be destroyed by mistake. */
  readonly isNamed?: true;
  /** The operands that the command has besides the app. */
  readonly operands?: readonly Operand[];
  readonly options?: Readonly<Record<string, Option>>;
};

/** The operand of commands on an app. */
const namedOperand = { name: "app", about: "Name or id of the app." } as const satisfies Operand;
const appOperand = {
  name: "app",
  isOfFolder: true,
  about:
    "Name or id of the app. Default: the one that this folder is linked to, or that its slipway.toml names.",
} as const satisfies Operand;

/** The option of commands on a project that can also work on one app. */
export const appOption = {
  app: { value: "<app>", about: "Name or id of an app, instead of the whole project." },
} as const satisfies Record<string, Option>;

/** The option of lists that come in pages. */
export const limitOption = {
  limit: { value: "<count>", about: "How many to show at most. Default: 50.", short: "n" },
} as const satisfies Record<string, Option>;

const commonHints: Readonly<Record<number, (at: At) => string>> = {
  403: () => "To see who you are: slipway whoami",
};
const limitDefault = 50;
const limitMax = 10_000;
/** What every paged list of the platform gives at once. */
const pageSizeMax = 200;

/** A command that does what `run` says. */
export function resourceCommand(
  shape: Common & { readonly run: (at: At) => Promise<number | void> },
): Command {
  const { of, appOf, isNamed, hints = {}, operands = [], options = {}, run, ...rest } = shape;
  const needsApp = of === "app" || appOf !== undefined;
  return command({
    ...rest,
    operands: of === "app" ? [isNamed === true ? namedOperand : appOperand, ...operands] : operands,
    options: { ...options, ...(of === "platform" ? platformOptions : projectOptions) },
    async run(given, machine) {
      const connection = connect(given, machine);
      const named = (appOf ?? namedApp)(given);
      const here = needsApp && named === "" ? appOfFolder(".") : { app: named, project: null };
      const project =
        of === "platform" ? "" : await projectWith(here, { connection, given, machine });
      const app = here.app ?? "";
      if (needsApp && app === "") throw nameless(shape.name);
      const { client } = connection;
      const path = { project_id: project, app_id: app };
      const at = { given, machine, connection, client, api: client.api, path };
      try {
        return await run(at);
      } catch (error) {
        throw error instanceof ApiRefused
          ? await explained(error, at, { ...commonHints, ...hints }[error.status])
          : error;
      }
    },
  });
}

function namedApp(given: Given): string {
  return given.text("app") ?? given.operand("app");
}

function nameless(command: string): Refused {
  return misuse(
    `app is missing: name or id of the app. This folder neither is linked nor has a slipway.toml with a name. See slipway ${command} --help.`,
  );
}

/** A command that prints a table. With `--json`: the items as an array. */
export function listCommand<Item>(
  shape: Common & {
    readonly items: (at: At) => Promise<readonly Item[]>;
    readonly columns: Readonly<Record<string, (item: Item, at: At) => Cell>>;
    /** Said when there are none. */
    readonly none: string;
  },
): Command {
  const { items, columns, none, ...common } = shape;
  return resourceCommand({
    ...common,
    async run(at) {
      const found = await items(at);
      output(at.given, at.machine, found, () => {
        const cells = Object.values(columns);
        if (found.length === 0) at.machine.tell(none);
        else
          printTable(
            at.machine,
            Object.keys(columns),
            found.map((item) => cells.map((cell) => cell(item, at))),
          );
      });
    },
  });
}

/** A command that prints one thing as names and values. */
export function showCommand<Item>(
  shape: Common & {
    readonly item: (at: At) => Promise<Item>;
    readonly fields: (item: Item) => Readonly<Record<string, Cell>>;
    /** Prints what does not fit into fields. */
    readonly more?: (item: Item, machine: Machine) => void;
  },
): Command {
  const { item, fields, more, ...common } = shape;
  return resourceCommand({
    ...common,
    async run(at) {
      const found = await item(at);
      output(at.given, at.machine, found, () => {
        printFields(at.machine, fields(found));
        more?.(found, at.machine);
      });
    },
  });
}

/**
 * A command that changes something and says what it did. With `--json` it prints the platform's
 * answer.
 */
export function changeCommand<Answer>(
  shape: Common & {
    /**
     * What is destroyed, as a question; null: nothing. The command asks it on a terminal, and needs
     * `--yes` without one.
     */
    readonly question?: (at: At) => string | null | Promise<string>;
    readonly change: (at: At) => Promise<Answer>;
    /** What is printed after the change, as one line or several. */
    readonly said: (answer: Answer, at: At) => string | readonly string[];
    /** The result, which goes to standard output, for scripts. */
    readonly result?: (answer: Answer) => string;
  },
): Command {
  const { question, change, said, result, options = {}, ...common } = shape;
  return resourceCommand({
    ...common,
    options: { ...(question === undefined ? unneededYesOption : yesOption), ...options },
    async run(at) {
      const asked = (await question?.(at)) ?? null;
      if (asked !== null) await confirm(at.given, at.machine, plain(asked));
      const answer = await change(at);
      output(at.given, at.machine, answer, () => {
        for (const line of [said(answer, at)].flat()) at.machine.tell(plain(line));
        if (result !== undefined) at.machine.print(plain(result(answer)));
      });
    },
  });
}

type Page<Item> = { readonly items: readonly Item[]; readonly nextToken?: string | undefined };

/** The items of as many pages as `--limit` asks for. Says when there are more. */
export async function paged<Item>(
  at: At,
  ask: (query: { readonly pageSize: number; readonly nextToken?: string }) => Promise<Page<Item>>,
): Promise<Item[]> {
  const limit = wholeNumber(at.given, "limit", { min: 1, max: limitMax }) ?? limitDefault;
  const items: Item[] = [];
  let nextToken: string | undefined;
  do {
    const pageSize = Math.min(limit - items.length, pageSizeMax);
    const page = await ask({ pageSize, ...(nextToken === undefined ? {} : { nextToken }) });
    items.push(...page.items);
    ({ nextToken } = page);
  } while (nextToken !== undefined && items.length < limit);
  if (nextToken !== undefined) at.machine.tell(`There are more. To see them: --limit ${limit * 2}`);
  return items;
}

/** The value of an option that is a whole number; undefined when it was not given. */
export function wholeNumber(
  given: Given,
  option: string,
  { min, max }: { readonly min: number; readonly max: number },
): number | undefined {
  const text = given.text(option);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d{1,9}$/.test(text) && value >= min && value <= max) return value;
  throw misuse(`--${option} is "${text}", but must be a whole number from ${min} to ${max}.`);
}

/** The value of an option that is one of some words; undefined when it was not given. */
export function choice<const Words extends readonly string[]>(
  given: Given,
  option: string,
  words: Words,
): Words[number] | undefined {
  const text = given.text(option);
  if (text === undefined) return undefined;
  const word: Words[number] | undefined = words.find((one) => one === text);
  if (word !== undefined) return word;
  const meant = closestName(text, words);
  const hint = meant === undefined ? "" : ` Did you mean ${meant}?`;
  throw misuse(`--${option} is "${text}", but must be one of ${words.join(", ")}.${hint}`);
}

/** The fields whose values are not undefined, for queries and bodies. */
export function defined<Fields extends Readonly<Record<string, unknown>>>(
  fields: Fields,
): { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as {
    [Name in keyof Fields]?: Exclude<Fields[Name], undefined>;
  };
}

/**
 * The refusal with what to do about it; of an app that does not exist, with the app that was
 * probably meant.
 */
async function explained(
  error: ApiRefused,
  at: At,
  hint: ((at: At) => string) | undefined,
): Promise<Refused> {
  const { api, path } = at;
  const apps = error.status === 404 && path.app_id !== "" ? await appsOrNone(api, path) : null;
  if (apps === null || apps.some(({ id, name }) => id === path.app_id || name === path.app_id)) {
    if (hint === undefined) return error;
    // The folder, which may be a stranger's, may name anything: it stays one word of the command to
    // copy.
    const shown = hint({ ...at, path: { ...path, app_id: quoted(path.app_id) } });
    return new Refused(`${error.message} ${plain(shown)}`, {
      exitCode: error.exitCode,
      cause: error,
    });
  }
  const meant = closestName(
    path.app_id,
    apps.map(({ name }) => name),
  );
  const suggestion = meant === undefined ? "" : ` Did you mean ${plain(meant)}?`;
  return new Refused(
    `The project has no app "${plain(path.app_id)}".${suggestion} To list its apps: slipway apps`,
    {
      exitCode: exitCodes.notFound,
      cause: error,
    },
  );
}

/** Null: they cannot be listed. */
async function appsOrNone(api: Client, path: At["path"]) {
  try {
    return await answerOf(api.GET("/v2/projects/{project_id}/apps", { params: { path } }));
  } catch (error) {
    // The suggestion is only help: without it the first refusal says enough.
    if (error instanceof Refused) return null;
    throw error;
  }
}
