// The files that this page sends to the persistent storage, one or two at a time, in the order in
// which they were chosen.
import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { messageOf } from "#api.ts";
import { sendFile } from "./volume-upload.ts";

/** One file. */
export type Upload = {
  readonly id: number;
  readonly path: string;
  readonly size: number;
  readonly sent: number;
  readonly state: "waiting" | "sending" | "done" | "failed" | "cancelled";
  /** Why it failed. */
  readonly reason: string;
};

/** Small files wait mostly for answers. */
const filesAtOnce = 2;
/** Each is a row of the page. */
export const filesMax = 500;

/** All of them; ended with the page. */
export class Uploads {
  readonly #project: string;
  readonly #onDone: () => void;
  readonly #files = new Map<number, File>();
  readonly #ends = new Map<number, AbortController>();
  readonly #listeners = new Set<() => void>();
  #all: readonly Upload[] = [];
  #lastId = 0;

  constructor(project: string, onDone: () => void) {
    this.#project = project;
    this.#onDone = onDone;
  }

  readonly listen = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly all = (): readonly Upload[] => this.#all;

  /** Whether some are not done yet. */
  isBusy(): boolean {
    return this.#all.some(isOpen);
  }

  /**
   * Sends them into the folder, which is empty or ends with a slash; forgets those that are done.
   */
  add(files: readonly File[], folder: string): void {
    const added = files.map((file): Upload => {
      const id = ++this.#lastId;
      this.#files.set(id, file);
      return {
        id,
        path: folder + file.name,
        size: file.size,
        sent: 0,
        state: "waiting",
        reason: "",
      };
    });
    this.#show([...this.#all.filter(isOpen), ...added]);
    this.#next();
  }

  cancel(id: number): void {
    this.#change(id, (one) => (isOpen(one) ? { ...one, state: "cancelled" } : one));
    this.#files.delete(id);
    this.#ends.get(id)?.abort();
    this.#next();
  }

  cancelAll(): void {
    for (const { id } of this.#all.filter(isOpen)) this.cancel(id);
  }

  /** Forgets those that are not open. */
  clear(): void {
    this.#show(this.#all.filter(isOpen));
  }

  #next(): void {
    const next = this.#all.find(({ state }) => state === "waiting");
    if (next === undefined || this.#ends.size >= filesAtOnce) return;
    void this.#send(next);
    this.#next();
  }

  async #send({ id, path }: Upload): Promise<void> {
    const file = this.#files.get(id);
    if (file === undefined) return;
    const end = new AbortController();
    this.#ends.set(id, end);
    this.#change(id, (one) => ({ ...one, state: "sending" }));
    try {
      const onSent = (sent: number): void => this.#change(id, (one) => ({ ...one, sent }));
      await sendFile({ project: this.#project, path, file, signal: end.signal, onSent });
      this.#change(id, (one) => ({ ...one, sent: one.size, state: "done" }));
      this.#onDone();
    } catch (error) {
      const reason = messageOf(error);
      this.#change(id, (one) =>
        one.state === "cancelled" ? one : { ...one, state: "failed", reason },
      );
    } finally {
      this.#ends.delete(id);
      this.#files.delete(id);
      this.#next();
    }
  }

  #change(id: number, change: (one: Upload) => Upload): void {
    this.#show(this.#all.map((one) => (one.id === id ? change(one) : one)));
  }

  #show(all: readonly Upload[]): void {
    this.#all = all;
    for (const listener of this.#listeners) listener();
  }
}

function isOpen({ state }: Upload): boolean {
  return state === "waiting" || state === "sending";
}

/** The uploads of the page; those that are not done are cancelled when it is left. */
export function useUploads(
  project: string,
  onDone: () => void,
): readonly [Uploads, readonly Upload[]] {
  const done = useRef(onDone);
  useEffect(() => {
    done.current = onDone;
  });
  const uploads = useMemo(() => new Uploads(project, () => done.current()), [project]);
  useEffect(() => () => uploads.cancelAll(), [uploads]);
  return [uploads, useSyncExternalStore(uploads.listen, uploads.all)];
}
