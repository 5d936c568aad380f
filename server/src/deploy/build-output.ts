// The log of one build while it is worked on: lines go out without waiting, scrubbed of credentials.
import type { BuildLog, BuildStage } from "#drivers/builder.ts";
import type { Clock } from "#lib/clock.ts";
import type { BuildId } from "#lib/ids.ts";
import type { BuildLogs } from "#logs/build-log.ts";

/** What is needed of the store of build logs. */
export type BuildLogSink = Pick<BuildLogs, "append" | "flush">;

/** Takes the lines of one build. */
export class BuildOutput {
  readonly #sink: BuildLogSink;
  readonly #buildId: BuildId;
  readonly #clock: Clock;

  constructor(options: { readonly sink: BuildLogSink; readonly buildId: BuildId; readonly clock: Clock }) {
    this.#sink = options.sink;
    this.#buildId = options.buildId;
    this.#clock = options.clock;
  }

  /** One line from anywhere. */
  readonly log: BuildLog = (stage, stream, text) => {
    const line = { at: this.#clock.now(), stage, stream, line: withoutCredentials(text) };
    // The store never rejects and bounds what waits; nobody here can wait for it.
    void this.#sink.append(this.#buildId, [line]);
  };

  /** What the platform itself says. */
  say(stage: BuildStage, text: string): void {
    this.log(stage, "platform", text);
  }

  /** Resolves when every line is stored; before the end of the build is written. */
  async flush(): Promise<void> {
    await this.#sink.flush();
  }
}

/** Takes user and password out of addresses, whatever printed them. */
function withoutCredentials(text: string): string {
  return text.replaceAll(/([a-z][a-z0-9+.-]{0,20}:\/\/)[^\s/@:]*:[^\s/@]+@/gi, "$1[secret]@");
}
