// Writes the log of one build in progress, without waiting, and with credentials and secrets
// removed.
import { logLevels, type LogLevel } from "@slipway/contract/app-choices.ts";
import { maskOf, type BuildSecrets, type Mask } from "#drivers/build-secrets.ts";
import type { BuildLog, BuildStage } from "#drivers/builder.ts";
import type { Clock } from "#lib/clock.ts";
import type { BuildId } from "#lib/ids.ts";
import type { BuildLogs } from "#logs/build-log.ts";

/** The part of the build log store that a build uses. */
export type BuildLogSink = Pick<BuildLogs, "append" | "flush">;

type BuildOutputOptions = {
  readonly sink: BuildLogSink;
  readonly buildId: BuildId;
  readonly clock: Clock;
  /** Which of the platform's own messages are logged. */
  readonly level: LogLevel;
};

/** Receives the lines of one build. */
export class BuildOutput {
  readonly #options: BuildOutputOptions;
  #mask: Mask = (text) => text;

  constructor(options: BuildOutputOptions) {
    this.#options = options;
  }

  /** Removes these secrets from all later lines, and from the texts that `masked` returns. */
  hide(secrets: BuildSecrets): void {
    this.#mask = maskOf(secrets);
  }

  /** The text without the secrets of the build. */
  masked(text: string): string {
    return this.#mask(text);
  }

  /** Logs one line from any source. */
  readonly log: BuildLog = (stage, stream, text) => {
    if (stream === "platform") this.say(stage, text);
    else this.#write(stage, stream, text);
  };

  /** Logs a message of the platform itself, if the app's log level includes it. */
  say(
    stage: BuildStage,
    text: string,
    level: LogLevel = text.startsWith("Error: ") ? "ERROR" : "INFO",
  ): void {
    // `logLevels` goes from the level with the fewest messages to the level with all.
    if (logLevels.indexOf(level) <= logLevels.indexOf(this.#options.level))
      this.#write(stage, "platform", text);
  }

  readonly #write: BuildLog = (stage, stream, text) => {
    const { sink, buildId, clock } = this.#options;
    const line = { at: clock.now(), stage, stream, line: withoutCredentials(this.#mask(text)) };
    // Not awaited: the callers cannot wait. The store bounds its backlog, and never rejects.
    void sink.append(buildId, [line]);
  };

  /** Resolves when every line is stored; call it before writing the end of the build. */
  async flush(): Promise<void> {
    await this.#options.sink.flush();
  }
}

/** Removes user and password from URLs, whatever printed them. */
function withoutCredentials(text: string): string {
  return text.replaceAll(/([a-z][a-z0-9+.-]{0,20}:\/\/)[^\s/@:]*:[^\s/@]+@/gi, "$1[secret]@");
}
