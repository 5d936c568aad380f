// Follows a build: prints its log live, over lost connections, until it has ended.
import { fieldsOf, textOf, textOrNull } from "./answer.ts";
import { ApiRefused, type ApiClient } from "./api-client.ts";
import { plain } from "./plain-text.ts";
import { Refused } from "./refused.ts";

/** How a build ended. */
export type BuildEnd = { readonly status: string; readonly reason: string | null };

const againMs = 1000;
/** How often in a row the connection may break before any line has come. */
const breaksMax = 30;

/**
 * The end of the build at `path` of the API. `print` gets each line of the log once. Throws `Refused` when the platform does
 * not answer for half a minute; the build goes on then.
 */
export async function followBuild(
  client: ApiClient,
  path: string,
  { print, tell }: { readonly print: (line: string) => void; readonly tell: (message: string) => void },
): Promise<BuildEnd> {
  let lastId: string | null = null;
  for (let breaks = 0; breaks < breaksMax; breaks++) {
    try {
      for await (const { id, event, data } of client.events(`${path}/logs?follow=true`, lastId)) {
        const fields = fieldsOf(JSON.parse(data));
        if (event === "end") return { status: textOf(fields, "status"), reason: textOrNull(fields, "reason") };
        print(`${plain(textOf(fields, "stage")).padEnd(stageWidth)}  ${plain(textOf(fields, "log"))}`);
        lastId = id;
        breaks = 0;
      }
    } catch (error) {
      const isFinal = error instanceof ApiRefused && error.status < 500 && error.status !== 429;
      if (!(error instanceof Refused) || isFinal) throw error;
      if (breaks === 0) tell(`${error.message} Trying again...`);
    }
    await new Promise((resolve) => setTimeout(resolve, againMs));
  }
  throw new Refused(`${client.url} does not answer any more. The build goes on without this command.`);
}

/** Of the longest name of a stage. */
const stageWidth = "dependencies".length;
