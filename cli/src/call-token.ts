// The tokens for calling apps that the command line finds by itself.
import { answerOf } from "@slipway/client/client.ts";
import { ApiRefused } from "./api-client.ts";
import type { At } from "./resource.ts";

/** Null: none was found; an app without authentication needs none. */
export async function callToken(
  at: Pick<At, "machine" | "connection" | "api" | "path">,
): Promise<string | null> {
  const own = at.machine.environment["SLIPWAY_CALL_TOKEN"] ?? "";
  if (own !== "") return own;
  // A person's own token manages apps and does not call them.
  return at.connection.token ?? (await readableToken(at));
}

/**
 * The token of the first readable key of the project that is valid; null: there is none, or the
 * caller may not see them.
 */
export async function readableToken({
  api,
  path,
}: Pick<At, "api" | "path">): Promise<string | null> {
  try {
    const keys = await answerOf(
      api.GET("/v2/projects/{project_id}/api-keys", { params: { path } }),
    );
    return keys.find(({ apiKey, state }) => apiKey !== null && state === "active")?.apiKey ?? null;
  } catch (error) {
    if (error instanceof ApiRefused && error.status === 403) return null;
    throw error;
  }
}
