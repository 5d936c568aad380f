// Follows a build: prints its log live, over lost connections, until it has ended.
import { fieldsOf, textOf, textOrNull } from "./answer.ts";
import type { ApiClient } from "./api-client.ts";
import { follow } from "./following.ts";
import { withCommands } from "./command-advice.ts";
import { plain } from "./plain-text.ts";

/** How a build ended. `isSaid`: the reason is in its log, of which the end was printed. */
export type BuildEnd = {
  readonly status: string;
  readonly reason: string | null;
  readonly isSaid: boolean;
};

/** Notes what was printed of a log. */
export class PrintedLines {
  #last: readonly string[] = [];

  /** Notes a line that was printed. */
  add(text: string): void {
    this.#last = [...this.#last.slice(1 - lastMax), text];
  }

  /** True when one of the last lines has the text. */
  have(text: string): boolean {
    return this.#last.some((line) => line.includes(text));
  }
}

/** The reason is among the last lines of the platform. */
const lastMax = 5;

type Following = {
  readonly print: (line: string) => void;
  readonly tell: (message: string) => void;
};

/**
 * The end of the build at `path` of the API. `print` gets each line of the log once. Throws
 * `Refused` when the platform does not answer for half a minute; the build goes on then.
 */
export async function followBuild(
  client: ApiClient,
  path: string,
  { print, tell }: Following,
): Promise<BuildEnd> {
  const printed = new PrintedLines();
  const end = await follow(client, {
    path: `${path}/logs?follow=true`,
    from: null,
    tell,
    print({ data }) {
      const fields = fieldsOf(JSON.parse(data));
      printed.add(textOf(fields, "log"));
      print(
        `${plain(textOf(fields, "stage")).padEnd(stageWidth)}  ${withCommands(plain(textOf(fields, "log")))}`,
      );
    },
  });
  const fields = fieldsOf(JSON.parse(end));
  const reason = textOrNull(fields, "reason");
  return {
    status: textOf(fields, "status"),
    reason,
    isSaid: reason !== null && printed.have(reason),
  };
}

/** The width of the longest name of a stage. */
const stageWidth = "dependencies".length;
