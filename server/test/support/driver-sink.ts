// Records what a driver reports, and waits for it.
import type { ReplicaEvent, ReplicaLine, ReplicaSink } from "#drivers/driver.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { until } from "./until.ts";

type Told<Kind extends ReplicaEvent["kind"]> = Extract<ReplicaEvent, { kind: Kind }>;

/** Keeps all events and lines. */
export class DriverSink implements ReplicaSink {
  readonly events: ReplicaEvent[] = [];
  readonly taken: ReplicaLine[] = [];
  /** Replaced by tests in which storing is slow. */
  storing: () => Promise<void> = () => Promise.resolve();

  event(event: ReplicaEvent): void {
    this.events.push(event);
  }

  lines(lines: readonly ReplicaLine[]): Promise<void> {
    this.taken.push(...lines);
    return this.storing();
  }

  texts(replicaId: ReplicaId): string[] {
    return this.taken.filter((line) => line.replicaId === replicaId).map(({ text }) => text);
  }

  /** Waits for the event. Fails if the replica ended without it. */
  async told<Kind extends ReplicaEvent["kind"]>(
    kind: Kind,
    replicaId: ReplicaId,
    deadlineMs = 30_000,
  ): Promise<Told<Kind>> {
    const find = (wanted: string): ReplicaEvent | undefined =>
      this.events.find((event) => event.kind === wanted && event.replicaId === replicaId);
    await until(`${kind} of ${replicaId}`, () => find(kind) ?? find("exited"), { deadlineMs });
    const found = find(kind);
    if (found === undefined)
      throw new Error(
        `${kind} was not told, but ${JSON.stringify(find("exited"))}; it printed ${this.texts(replicaId).join("\n")}`,
      );
    return found as Told<Kind>;
  }

  /** Waits for a line of the replica that contains `part`. */
  line(replicaId: ReplicaId, part: string, deadlineMs = 30_000): Promise<string> {
    const find = (): string | undefined =>
      this.texts(replicaId).find((text) => text.includes(part));
    return until(`a line with ${part}`, find, { deadlineMs });
  }
}
