// Secrets of projects and apps: flat maps.
import type { SecretScope } from "#apps/secret-store.ts";
import { readSecretMap, type SecretMap } from "#apps/secrets.ts";
import { projectOf, refOf, type ApiCall, type Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";

/** A whole file of names that need a word should not bury the rest of the answer. */
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
    const done = `${changed} ${changed === 1 ? "secret was" : "secrets were"} changed`;
    const apps = `${restarted} ${restarted === 1 ? "app is" : "apps are"} restarted, one replica after the other`;
    const message = restarts ? `${done}; ${apps}.` : `${done}; replicas see it when they start.`;
    return { message: [message, ...warnings.slice(0, warningsShownMax)].join(" ") };
  };
  return {
    getProjectSecrets: (call) => read(call, ofProject(call)),
    setProjectSecrets: (call) => replace(call, ofProject(call)),
    getAppSecrets: (call) => read(call, refOf(call)),
    setAppSecrets: (call) => replace(call, refOf(call)),
  } satisfies Handlers;
}

function ofProject(call: ApiCall): SecretScope {
  return { projectId: projectOf(call), appId: null };
}

/** The only code that reveals secrets: to a caller who may read them. */
function shown(secrets: SecretMap): Record<string, string> {
  return Object.fromEntries([...secrets].map(([name, value]) => [name, value.reveal()]));
}
