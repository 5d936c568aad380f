// `slipway completion`: prints a script that completes commands and options in a shell, made from
// the table of commands, and the names of apps, for which the script runs `slipway completion
// apps`.
import { listOf, textOf } from "./answer.ts";
import {
  command,
  commonOptions,
  type CommandShape,
  type Given,
  type Option,
  type Run,
} from "./command.ts";
import { connect, projectOf, projectOptions, projectPath } from "./connection.ts";
import type { Machine } from "./machine.ts";
import { output } from "./output.ts";
import { Refused } from "./refused.ts";

const shells = ["bash", "zsh", "fish"] as const;

/** A row of the table of commands. */
type Completed = { readonly about: string } & (
  | { readonly load: () => Promise<Run> }
  | { readonly verbs: Readonly<Record<string, Completed>> }
);

/** Prints the script for the given table. */
export const completionOf = (commands: Readonly<Record<string, Completed>>): Run =>
  command({
    name: "completion",
    about: `Print a script that completes commands and options. In bash, add the line "source <(slipway completion bash)" to
~/.bashrc; in zsh, the same with zsh to ~/.zshrc, after compinit; in fish, write the script to the file below.`,
    examples: [
      "completion bash",
      "completion zsh",
      "completion fish > ~/.config/fish/completions/slipway.fish",
    ],
    operands: [
      {
        name: "shell",
        about: "bash, zsh or fish; apps prints the names of the project's apps instead.",
      },
    ],
    options: projectOptions,
    async run(given, machine) {
      if (given.operand("shell") === "apps") {
        const names = await appNames(given, machine);
        return output(given, machine, names, () => names.forEach((name) => machine.print(name)));
      }
      const shell = shells.find((one) => one === given.operand("shell"));
      if (shell === undefined) {
        throw new Refused(
          `shell is "${given.operand("shell")}", but must be one of ${shells.join(", ")}, or apps.`,
          {
            exitCode: 2,
          },
        );
      }
      const found = await choicesBelow([], commands);
      const script = { bash: bashScript, zsh: zshScript, fish: fishScript }[shell](found).trimEnd();
      output(given, machine, { shell, script }, () => machine.print(script));
    },
  });

/** Returns the app names that shells take as they are: some expand what they are offered. */
async function appNames(given: Given, machine: Machine): Promise<string[]> {
  const connection = connect(given, machine);
  const project = await projectOf(connection, given, machine);
  const apps = listOf(await connection.client.get(projectPath(project, "/apps")));
  return apps.map((app) => textOf(app, "name")).filter((name) => /^[A-Za-z0-9][\w-]*$/.test(name));
}

const printApps = "slipway completion apps 2>/dev/null";

/** What may follow `words`. */
type Choices = {
  readonly words: readonly string[];
  /** The name of an app, too. */
  readonly isOfApp: boolean;
  readonly choices: readonly { readonly text: string; readonly about: string }[];
};

async function choicesBelow(
  words: readonly string[],
  entries: Readonly<Record<string, Completed>>,
): Promise<Choices[]> {
  const own = Object.entries(entries).map(([text, { about }]) => ({ text, about }));
  const below = await Promise.all(
    Object.entries(entries).map(async ([word, entry]) => {
      const at = [...words, word];
      if ("verbs" in entry) return await choicesBelow(at, entry.verbs);
      const { options, operands } = shapeOf(await entry.load());
      const choices = Object.entries({ ...options, ...commonOptions }).map(
        ([name, option]: [string, Option]) => ({
          text: `--${name}`,
          about: option.about,
        }),
      );
      return [{ words: at, choices, isOfApp: operands?.[0]?.name === "app" }];
    }),
  );
  return [{ words, choices: own, isOfApp: false }, ...below.flat()];
}

/** The options and operands of a command; of the platform's own command nothing is known here. */
function shapeOf(run: Run): Partial<CommandShape> {
  return "shape" in run ? (run.shape as CommandShape) : {};
}

/** The arms of a `case` over the words typed so far. The app comes first of the operands. */
function arms(found: readonly Choices[]): string {
  return found
    .map(({ words, choices, isOfApp }) => {
      const apps = isOfApp
        ? `; [[ "$all" != "$typed" || "$word" == -* ]] || choices+=" $(${printApps})"`
        : "";
      return `      "${words.join(" ")}") choices="${choices.map(({ text }) => text).join(" ")}"${apps} ;;`;
    })
    .join("\n");
}

function bashScript(found: readonly Choices[]): string {
  return `_slipway() {
  local index typed="" choices="" all word=\${COMP_WORDS[COMP_CWORD]}
  for ((index = 1; index < COMP_CWORD; index++)); do
    [[ \${COMP_WORDS[index]} == -* ]] || typed="\${typed:+$typed }\${COMP_WORDS[index]}"
  done
  all=$typed
  # The words of the longest command; operands follow it.
  while :; do
    case "$typed" in
${arms(found)}
      *" "*) typed=\${typed% *}; continue ;;
    esac
    break
  done
  COMPREPLY=($(compgen -W "$choices" -- "$word"))
}
complete -o default -F _slipway slipway
`;
}

function zshScript(found: readonly Choices[]): string {
  return `_slipway() {
  local word typed="" choices="" all
  for word in \${words[2,CURRENT-1]}; do
    [[ $word == -* ]] || typed="\${typed:+$typed }$word"
  done
  all=$typed word=\${words[CURRENT]}
  while :; do
    case "$typed" in
${arms(found)}
      *" "*) typed=\${typed% *}; continue ;;
    esac
    break
  done
  compadd -- \${=choices}
  [[ -n $choices && $choices != --* ]] || _files
}
compdef _slipway slipway
`;
}

function fishScript(found: readonly Choices[]): string {
  const rows = found.flatMap(({ words, choices, isOfApp }) => {
    const when = words.join(" ");
    const options = choices.map(({ text, about }) => {
      const isOption = text.startsWith("--");
      const test = isOption ? "__slipway_begins" : "__slipway_is";
      const what = isOption ? `-l ${text.slice(2)}` : `-f -a ${text}`;
      return `complete -c slipway -n '${test} "${when}"' ${what} -d '${about.replaceAll(/['\\]/g, "\\$&")}'`;
    });
    return isOfApp
      ? [...options, `complete -c slipway -n '__slipway_is "${when}"' -f -a '(${printApps})'`]
      : options;
  });
  return `function __slipway_typed
  string join " " (string match -v -- "-*" (commandline -opc)[2..])
end
function __slipway_is
  test (__slipway_typed) = "$argv"
end
function __slipway_begins
  string match -q -- "$argv*" (__slipway_typed)
end
${rows.join("\n")}
`;
}
