// `slipway exec`: runs a command in a replica of an app, with the input and output of this
// terminal.
import { answerOf } from "@slipway/client/client.ts";
import { ExecConnection, type ExecOutcome } from "./exec-connection.ts";
import { plain } from "./plain-text.ts";
import { exitCodes, misuse, Refused } from "./refused.ts";
import { resourceCommand, type At } from "./resource.ts";

const route = "/v2/projects/{project_id}/apps/{app_id}/containers" as const;

/** The command that runs a program in a replica. */
export const exec = resourceCommand({
  name: "exec",
  about: `Run a command in a replica of an app: as the app's user, with its variables, files, network and limits. Its exit code is
that of the command. It keeps no replica alive: give the app a replica that stays with slipway apps scale <app> --min 1.`,
  examples: [
    "exec hello -- ls -l",
    "exec hello -it",
    "exec hello -i -- python - < script.py",
    "exec hello -c hello-3f9a1c07be -- env",
  ],
  of: "app",
  isNamed: true,
  operands: [
    {
      name: "command",
      about: "The program and its arguments, after --. Default: sh, with -t.",
      isMany: true,
      isOptional: true,
    },
  ],
  options: {
    replica: {
      value: "<replica>",
      about: "Which one. Default: the newest that takes calls.",
      short: "c",
    },
    stdin: { value: null, about: "Pass on what this command reads.", short: "i" },
    tty: { value: null, about: "Give it this terminal.", short: "t" },
  },
  hints: { 403: () => "It takes the permission apps.exec." },
  async run(at) {
    const { given } = at;
    if (given.has("json"))
      throw misuse("--json is not for exec: it prints what the command prints.");
    const words = given.operands("command");
    const hasTerminal = given.has("tty");
    if (words.length === 0 && !hasTerminal)
      throw misuse(
        "command is missing: the program and its arguments, after --. For a shell: slipway exec <app> -it",
      );
    const command = words.length === 0 ? ["sh"] : words;
    return await runIn(at, { command, hasInput: given.has("stdin"), hasTerminal });
  },
});

type Wish = {
  readonly command: readonly string[];
  readonly hasInput: boolean;
  readonly hasTerminal: boolean;
};

async function runIn(at: At, wish: Wish): Promise<number> {
  if (wish.hasTerminal && !(process.stdin.isTTY && process.stdout.isTTY))
    throw misuse("A terminal was asked for, but this command has none: use exec without -t.");
  const replica = at.given.text("replica") ?? (await newestReplica(at));
  const { client, path, machine } = at;
  const connection = new ExecConnection(
    {
      url: client.url,
      token: await client.token(),
      project: path.project_id,
      app: path.app_id,
      replica,
      machine,
    },
    wish,
  );
  const outcome = await connection.run();
  if (outcome.message !== null) machine.tell(plain(outcome.message));
  return exitCodeOf(outcome);
}

function exitCodeOf({ exitCode }: ExecOutcome): number {
  return exitCode ?? exitCodes.failed;
}

async function newestReplica({ api, path }: At): Promise<string> {
  const replicas = await answerOf(api.GET(route, { params: { path } }));
  const ready = replicas.filter(({ containerState }) => containerState === "RUNNING");
  const startOf = (one: (typeof ready)[number]): string => one.containerStartTimestamp ?? "";
  const newest = ready.toSorted((one, other) => (startOf(one) < startOf(other) ? 1 : -1))[0];
  if (newest !== undefined) return newest.containerId;
  const app = plain(path.app_id);
  throw new Refused(
    `The app has no running replica now. Call it, or keep one running: slipway apps scale ${app} --min 1`,
    { exitCode: exitCodes.notFound },
  );
}
