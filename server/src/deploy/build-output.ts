// The log of one build in progress. Writes lines without waiting, with credentials removed.
import type { BuildLog, BuildStage } from "#drivers/builder.ts";
import type { Clock } from "#lib/clock.ts";
import type { BuildId } from "#lib/ids.ts";
import type { BuildLogs } from "#logs/build-log.ts";

/** The required part of the store of build logs. */
export type BuildLogSink = Pick<BuildLogs, "append" | "flush">;

/** Receives the lines of one build. */
export class BuildOutput {
  readonly #sink: BuildLogSink;
  readonly #buildId: BuildId;
  readonly #clock: Clock;

  constructor(options: { readonly sink: BuildLogSink; readonly buildId: BuildId; readonly clock: Clock }) {
    this.#sink = options.sink;
    this.#buildId = options.buildId;
    this.#clock = options.clock;
  }

  /** Logs one line from any source. */
  readonly log: BuildLog = (stage, stream, text) => {
    const line = { at: this.#clock.now(), stage, stream, line: withoutCredentials(text) };
    // Not awaited: nothing here can wait, and the store never rejects and bounds its backlog.
    void this.#sink.append(this.#buildId, [line]);
  };

  /** Logs a message of the platform itself. */
  say(stage: BuildStage, text: string): void {
    this.log(stage, "platform", text);
  }

  /** Resolves when every line is stored; call it before writing the end of the build. */
  async flush(): Promise<void> {
    await this.#sink.flush();
  }
}

/** Removes user and password from URLs, whatever printed them. */
function withoutCredentials(text: string): string {
  return text.replaceAll(/([a-z][a-z0-9+.-]{0,20}:\/\/)[^\s/@:]*:[^\s/@]+@/gi, "$1[secret]@");
}
