// `slipway completion`: prints a script that completes commands and options in a shell, made from the table of commands.
import { command, commonOptions, type CommandShape, type Run } from "./command.ts";
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
    examples: ["completion bash", "completion zsh", "completion fish > ~/.config/fish/completions/slipway.fish"],
    operands: [{ name: "shell", about: "bash, zsh or fish." }],
    async run(given, machine) {
      const shell = shells.find((one) => one === given.operand("shell"));
      if (shell === undefined) {
        throw new Refused(`shell is "${given.operand("shell")}", but must be one of ${shells.join(", ")}.`, {
          exitCode: 2,
        });
      }
      const found = await choicesBelow([], commands);
      const script = { bash: bashScript, zsh: zshScript, fish: fishScript }[shell](found).trimEnd();
      output(given, machine, { shell, script }, () => machine.print(script));
    },
  });

/** What may follow `words`. */
type Choices = {
  readonly words: readonly string[];
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
      return [{ words: at, choices: optionsOf(await entry.load()) }];
    }),
  );
  return [{ words, choices: own }, ...below.flat()];
}

/** Of the platform's own command nothing is known here. */
function optionsOf(run: Run): Choices["choices"] {
  const shape = "shape" in run ? (run.shape as Pick<CommandShape, "options">) : {};
  const options: CommandShape["options"] = { ...shape.options, ...commonOptions };
  return Object.entries(options).map(([name, { about }]) => ({ text: `--${name}`, about }));
}

/** The arms of a `case` over the words typed so far. */
function arms(found: readonly Choices[]): string {
  return found
    .map(
      ({ words, choices }) => `      "${words.join(" ")}") choices="${choices.map(({ text }) => text).join(" ")}" ;;`,
    )
    .join("\n");
}

function bashScript(found: readonly Choices[]): string {
  return `_slipway() {
  local index typed="" choices=""
  for ((index = 1; index < COMP_CWORD; index++)); do
    [[ \${COMP_WORDS[index]} == -* ]] || typed="\${typed:+$typed }\${COMP_WORDS[index]}"
  done
  # The words of the longest command; operands follow it.
  while :; do
    case "$typed" in
${arms(found)}
      *" "*) typed=\${typed% *}; continue ;;
    esac
    break
  done
  COMPREPLY=($(compgen -W "$choices" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _slipway slipway
`;
}

function zshScript(found: readonly Choices[]): string {
  return `_slipway() {
  local word typed="" choices=""
  for word in \${words[2,CURRENT-1]}; do
    [[ $word == -* ]] || typed="\${typed:+$typed }$word"
  done
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
  const rows = found.flatMap(({ words, choices }) =>
    choices.map(({ text, about }) => {
      const [isOption, when] = [text.startsWith("--"), words.join(" ")];
      const test = isOption ? "__slipway_begins" : "__slipway_is";
      const what = isOption ? `-l ${text.slice(2)}` : `-f -a ${text}`;
      return `complete -c slipway -n '${test} "${when}"' ${what} -d '${about.replaceAll(/['\\]/g, "\\$&")}'`;
    }),
  );
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
