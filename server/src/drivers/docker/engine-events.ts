// Follows the engine's events about the containers of one installation.
import { addAbortListener } from "node:events";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { labels } from "./container-spec.ts";
import type { Engine } from "./engine.ts";
import type { DriverParts } from "#drivers/opened-driver.ts";

/** What happened to a container. */
export type EngineEvent = { readonly action: string; readonly containerId: string };

type FollowOptions = Pick<DriverParts, "clock" | "installationId"> & {
  /** Following ends when this is aborted. */
  readonly signal: AbortSignal;
  readonly onEvent: (event: EngineEvent) => void;
  /**
   * Called with the time in milliseconds since the epoch when following has begun, and with
   * infinity when it has ended.
   */
  readonly onFollowed: (sinceMs: number) => void;
  /** Called once events are followed. */
  readonly onBegin: () => Promise<void>;
};

/** How long before the present the events begin that the engine sends. */
const beforeSeconds = 10;

/** Follows events until the signal is aborted; rejects when the engine ends its events. */
export async function followEvents(
  { streams }: Pick<Engine, "streams">,
  options: FollowOptions,
): Promise<void> {
  const { installationId, clock, signal, onEvent, onFollowed, onBegin } = options;
  const filters = {
    event: ["die", "destroy", "kill"],
    label: [`${labels.instance}=${installationId}`],
  };
  // Includes recent events, such as a signal to a container that is about to end.
  const since = Math.floor(clock.now() / 1000) - beforeSeconds;
  const events = (await streams.getEvents({ filters, since })) as unknown as Readable;
  onFollowed(clock.now());
  const ended = Promise.withResolvers<void>();
  const lines = createInterface({ input: events }).on("line", (line) => onEvent(eventOf(line)));
  lines.once("close", () => {
    onFollowed(Number.POSITIVE_INFINITY);
    ended.resolve();
  });
  // A broken connection ends the lines too.
  lines.on("error", () => undefined);
  events.on("error", () => undefined).once("close", () => lines.close());
  using _stop = addAbortListener(signal, () => events.destroy());
  try {
    await onBegin();
    await ended.promise;
  } finally {
    events.destroy();
  }
  if (!signal.aborted) throw new Error("the engine ended its events");
}

/** Reads only the action and the container's id: other fields contain labels of the app's image. */
function eventOf(line: string): EngineEvent {
  const { Action: action, Actor } = JSON.parse(line) as {
    readonly Action: string;
    readonly Actor: { readonly ID: string };
  };
  return { action, containerId: Actor.ID };
}
