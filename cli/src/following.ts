// Follows a live stream of the platform until it ends: prints each thing, and after a lost
// connection goes on after the last one.
import { ApiRefused, type ApiClient } from "./api-client.ts";
import { Refused } from "./refused.ts";
import type { ServerEvent } from "./server-events.ts";

const againMs = 1000;
/** How often in a row the connection may break before anything has come. */
const breaksMax = 30;

export type Following = {
  /** The path of the stream, with its query. */
  readonly path: string;
  /** The id after which it begins; null: now, or at the beginning where the stream has one. */
  readonly from: string | null;
  readonly print: (event: ServerEvent) => void;
  /** Tells the person that the connection broke. */
  readonly tell: (message: string) => void;
};

/**
 * Returns the data of the event `end`. A stream without one is followed until what it shows, or the
 * right to read it, is gone: then it throws `Refused`.
 */
export async function follow(
  client: ApiClient,
  { path, from, print, tell }: Following,
): Promise<string> {
  let lastId = from;
  for (let breaks = 0; breaks < breaksMax; breaks++) {
    try {
      for await (const event of client.events(path, lastId)) {
        if (event.event === "end") return event.data;
        print(event);
        if (event.id !== "") lastId = event.id;
        breaks = 0;
      }
    } catch (error) {
      const isFinal = error instanceof ApiRefused && error.status < 500 && error.status !== 429;
      if (!(error instanceof Refused) || isFinal) throw error;
      if (breaks === 0) tell(`${error.message} Trying again...`);
    }
    await new Promise((resolve) => setTimeout(resolve, againMs));
  }
  throw new Refused(
    `${client.url} does not answer any more; what was followed goes on without this command.`,
  );
}
