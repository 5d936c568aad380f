// Route handlers that read and replace the secrets of a project or an app: a flat map from names to
// values.
import type { SecretScope } from "#apps/secret-store.ts";
import { readSecretMap, type SecretMap } from "#apps/secrets.ts";
import { projectOf, refOf, type ApiCall, type Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";

/** The maximum number of warnings in an answer: more would bury its first sentence. */
const warningsShownMax = 5;

/** Route handlers for secrets. */
export function secretHandlers({ secrets }: HandlerParts) {
  const read = async (call: ApiCall, scope: SecretScope): Promise<object> =>
    shown(await secrets.read(scope, call.by));
  const replace = async (call: ApiCall, scope: SecretScope): Promise<object> => {
    const restarts = call.query["restart"] === true;
    const replaced = await secrets.replace(scope, readSecretMap(call.body), {
      by: call.by,
      restarts,
    });
    const { changed, restarted, warnings } = replaced;
    const secretsWere = changed === 1 ? "secret was" : "secrets were";
    const appsAre = restarted === 1 ? "app is" : "apps are";
    const changedText = `${changed} ${secretsWere} changed`;
    const restartedText = `${restarted} ${appsAre} restarted, one replica after the other`;
    const message = restarts
      ? `${changedText}; ${restartedText}.`
      : `${changedText}; replicas see the change when they start.`;
    return { message: [message, ...warnings.slice(0, warningsShownMax)].join(" ") };
  };
  return {
    getProjectSecrets: (call) => read(call, projectScope(call)),
    setProjectSecrets: (call) => replace(call, projectScope(call)),
    getAppSecrets: (call) => read(call, refOf(call)),
    setAppSecrets: (call) => replace(call, refOf(call)),
  } satisfies Handlers;
}

function projectScope(call: ApiCall): SecretScope {
  return { projectId: projectOf(call), appId: null };
}

/** Reveals the secrets to a caller who may read them. */
function shown(secrets: SecretMap): Record<string, string> {
  return Object.fromEntries([...secrets].map(([name, value]) => [name, value.reveal()]));
}
