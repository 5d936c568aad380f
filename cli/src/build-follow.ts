// Follows a build: prints its log live, over lost connections, until it has ended.
import { fieldsOf, textOf, textOrNull } from "./answer.ts";
import type { ApiClient } from "./api-client.ts";
import { follow } from "./following.ts";
import { plain } from "./plain-text.ts";

/** How a build ended. */
export type BuildEnd = { readonly status: string; readonly reason: string | null };

/**
 * The end of the build at `path` of the API. `print` gets each line of the log once. Throws `Refused` when the platform does
 * not answer for half a minute; the build goes on then.
 */
export async function followBuild(
  client: ApiClient,
  path: string,
  { print, tell }: { readonly print: (line: string) => void; readonly tell: (message: string) => void },
): Promise<BuildEnd> {
  const end = await follow(client, {
    ...{ path: `${path}/logs?follow=true`, from: null, tell },
    print({ data }) {
      const fields = fieldsOf(JSON.parse(data));
      print(`${plain(textOf(fields, "stage")).padEnd(stageWidth)}  ${plain(textOf(fields, "log"))}`);
    },
  });
  const fields = fieldsOf(JSON.parse(end));
  return { status: textOf(fields, "status"), reason: textOrNull(fields, "reason") };
}

/** Of the longest name of a stage. */
const stageWidth = "dependencies".length;
