// `slipway apps scale` and `slipway apps set`: change settings of an app. The platform checks the
// values and says what a change takes; here only the names are checked, so that a mistyped one is
// answered with the one that was meant.
import { answerOf } from "@slipway/client/client.ts";
import { appFields, type FieldName } from "@slipway/contract/app-fields.ts";
import type { Field } from "@slipway/contract/field.ts";
import { closestName } from "@slipway/server/src/lib/closest-name.ts";
import type { Option } from "./command.ts";
import { misuse } from "./refused.ts";
import { changeCommand, type At } from "./resource.ts";

/** The options of `apps scale`, by the fields that they set. */
const scaling = {
  min: "minReplicaCount",
  max: "maxReplicaCount",
  concurrency: "replicaConcurrency",
  cooldown: "cooldownPeriodSeconds",
  buffer: "scalingBuffer",
  metric: "scalingMetric",
  target: "scalingTarget",
  window: "evaluationIntervalSeconds",
  timeout: "responseGracePeriodSeconds",
  balance: "loadBalancingAlgorithm",
} as const satisfies Record<string, FieldName>;

const names = Object.keys(appFields) as FieldName[];
const changeable = names.filter((name) => appFields[name].change !== "fixed");
const dryRunOption = {
  "dry-run": { value: null, about: "Only say what the change would take." },
} as const satisfies Record<string, Option>;
const pairsOperand = {
  name: "setting=value",
  about:
    "A setting, by its name here or in the TOML file (cooldownPeriodSeconds, cooldown), and its new value; lists with commas. Without a value, what the files or the default say counts again.",
  isMany: true,
} as const;

const common = {
  of: "app",
  isNamed: true,
  said: ({ message }: { readonly message: string }): string => message,
} as const;

/** The commands that change settings of apps, by verb. */
export const appsSet = {
  scale: changeCommand({
    ...common,
    name: "apps scale",
    about:
      "Change how many replicas an app has, and how calls are spread over them. It says what the change takes.",
    examples: [
      "apps scale hello --min 1 --max 5",
      "apps scale hello --concurrency 10 --cooldown 60",
      "apps scale hello scalingTarget=70 --dry-run",
    ],
    operands: [{ ...pairsOperand, isOptional: true }],
    options: {
      ...Object.fromEntries(
        Object.entries(scaling).map(([option, field]) => [
          option,
          { value: `<${option}>`, about: `${appFields[field].about} (${field})` },
        ]),
      ),
      ...dryRunOption,
    },
    async change(at) {
      const chosen = Object.entries(scaling).flatMap(([option, field]) => {
        const text = at.given.text(option);
        return text === undefined ? [] : [`${field}=${text}`];
      });
      const pairs = [...at.given.operands(pairsOperand.name), ...chosen];
      if (pairs.length === 0)
        throw misuse("There is nothing to change. See slipway apps scale --help.");
      return await change(at, pairs);
    },
  }),

  set: changeCommand({
    ...common,
    name: "apps set",
    about: `Change settings of an app. It says what the change takes: nothing, new replicas, or a new build.

The settings: ${changeable.join(", ")}.`,
    examples: [
      "apps set hello memory=8 cpu=4",
      "apps set hello gitBranch=production",
      "apps set hello compute=A10,L4",
    ],
    operands: [pairsOperand],
    options: dryRunOption,
    change: (at) => change(at, at.given.operands(pairsOperand.name)),
  }),
};

/**
 * By the name that the API has and the one that the TOML file has, in lower case:
 * `cooldownPeriodSeconds`, `cooldown`.
 */
const settingsByName = namesOfSettings();

function namesOfSettings(): ReadonlyMap<string, FieldName> {
  const byName = new Map<string, FieldName>();
  for (const name of changeable) {
    const tomlName = tomlNameOf(name);
    if (tomlName !== null) byName.set(tomlName.toLowerCase(), name);
  }
  for (const name of changeable) byName.set(name.toLowerCase(), name);
  return byName;
}

/** The key in the TOML file, without its table; null: it has none. */
function tomlNameOf(name: FieldName): string | null {
  const toml: string | null = appFields[name].toml;
  return toml === null ? null : toml.slice(toml.lastIndexOf(".") + 1);
}

async function change({ given, api, path }: At, pairs: readonly string[]) {
  const body = Object.fromEntries(pairs.map(settingOf));
  const query = { dryRun: given.has("dry-run") };
  return await answerOf(
    api.PATCH("/v2/projects/{project_id}/apps/{app_id}", { params: { path, query }, body }),
  );
}

/**
 * `memory=8` as a field of the body. The platform refuses values that do not fit, with what is
 * allowed.
 */
function settingOf(pair: string): [FieldName, never] {
  const [, given = "", text] = /^([^=]*)=(.*)$/s.exec(pair) ?? [];
  if (text === undefined) throw misuse(`"${pair}" must be of the form setting=value.`);
  const name = settingsByName.get(given.toLowerCase());
  if (name === undefined) {
    const meant = closestName(given, [
      ...changeable,
      ...changeable.flatMap((one) => tomlNameOf(one) ?? []),
    ]);
    const within = changeable.filter((one) => given.length > 2 && one.startsWith(given));
    const names = meant ?? within.join(" or ");
    const hint = names === "" ? "" : ` Did you mean ${names}?`;
    throw misuse(
      `"${given}" is not a setting that can be changed.${hint} See slipway apps set --help.`,
    );
  }
  return [name, valueOf(appFields[name], text) as never];
}

function valueOf(field: Field, text: string): unknown {
  if (text === "") return null;
  switch (field.kind) {
    case "number":
    case "integer":
      return Number.isNaN(Number(text)) ? text : Number(text);
    case "boolean":
      if (text === "true") return true;
      return text === "false" ? false : text;
    case "list":
      return text.split(",").map((one) => one.trim());
    default:
      return text;
  }
}
