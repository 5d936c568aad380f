// Turns what a build prints (docker build --progress=plain) into lines of the build's log with
// their step, and keeps what is needed to explain a failure. Knows the output of BuildKit 0.8 and
// later.
import type { BuildLog, BuildStage } from "#drivers/builder.ts";
import type { Clock } from "#lib/clock.ts";
import { fetchesAddress } from "./dockerfile-check.ts";
import type { ImageStep } from "./dockerfile.ts";
import { isSameImage } from "./image-sources.ts";
import { saysBroken } from "./retry-build.ts";
import { factMark, problemMark, warningMark } from "./image-scripts.ts";

/** One unit of work of a build, which the output numbers. */
type Vertex = {
  readonly title: string;
  readonly stage: BuildStage;
  readonly step: ImageStep | null;
  /** The base image whose name and content are looked up. */
  readonly image: string | null;
  output: string;
  /** A sentence that a script of the builder printed for the app's owner; null: it printed none. */
  problem: string | null;
  /**
   * Cancels the delayed call of `onRun`, for when the step's result is reused; null: this vertex
   * has planned no call.
   */
  cancelRun: (() => void) | null;
};

/** What is known of a failed build. */
export type BuildFailure = {
  /** The step that failed, when one did. */
  readonly step: ImageStep | null;
  /** The title under which the log shows the failed unit of work. */
  readonly title: string | null;
  /** The image that could not be found or pulled. */
  readonly image: string | null;
  /** The exit code of the failed command; null: no command has failed. */
  readonly exitCode: number | null;
  /** The end of the step's output. */
  readonly output: string;
  /** The builder's own message. */
  readonly reason: string;
  /**
   * Why the engine could not run the step, or could not end it as usual; null: the step's own
   * command failed, or no step failed.
   */
  readonly engineReason: string | null;
  /** What the step's script printed for the app's owner; null: it printed nothing for the owner. */
  readonly problem: string | null;
};

export type ProgressOptions = {
  /** The steps of the Dockerfile that the builder wrote; empty for one of the app's own. */
  readonly steps: ReadonlyMap<string, ImageStep>;
  /** All images that the Dockerfile may name. */
  readonly images: readonly string[];
  readonly log: BuildLog;
  /**
   * Hides values of secrets in all text that is shown. Whether to call `onFetch`, `onImage` or
   * `onDigest` depends on the unmasked line: hiding a value could also hide an address.
   */
  readonly mask: (text: string) => string;
  /**
   * Facts from scripts in an earlier try of the same build, whose steps do not run again. New facts
   * are added.
   */
  readonly facts: Map<string, string>;
  /** Called once, when packages or commands run, whether or not they print anything. */
  readonly onRun: (() => void) | null;
  readonly clock: Clock;
  /** Called for a step in which the engine itself fetches an address. */
  readonly onFetch: (title: string) => void;
  /** Called with each image that is looked up, or copied from. */
  readonly onImage: (image: string) => void;
  /** Called with each image that is looked up by digest. */
  readonly onDigest: (image: string) => void;
};

/** How much is kept of the end of a step's output, for explaining a failure. */
const outputCharactersMax = 20_000;
const titleCharactersMax = 300;
/** A line of a step's output: the seconds since its start, then the text. */
const outputForm = /^(\d+\.\d+)(?: (.*))?$/s;
/** How many units of work are remembered; further ones are only shown. */
const verticesMax = 10_000;
/** The builder says at once, well within this time, when it has the result of a command already. */
const cachedWaitMs = 500;
/** The facts that scripts of the builder may report. */
const factNames = new Set(["pythonVersion", "takesRootPath"]);
const factCharactersMax = 20;

/** Reads the output of one build, line by line. */
export class BuildProgress {
  readonly #options: ProgressOptions;
  readonly #vertices = new Map<string, Vertex>();
  /** The titles of steps that the log has already. */
  readonly #shown = new Set<string>();
  /** The titles of steps that the log says are reused from an earlier build. */
  readonly #cached = new Set<string>();
  #onRun: ProgressOptions["onRun"];
  /** The facts that scripts have reported. */
  readonly facts: Map<string, string>;
  /** What failed first; null: nothing has failed. */
  #failed: Vertex | null = null;
  /** The builder's own message about the failure; "" if it has none. */
  #reason = "";
  /** The last line that is not empty: newer clients give their reason there, without a prefix. */
  #lastLine = "";
  /** The exit code of the failed command; null: no command has failed. */
  #exitCode: string | null = null;
  /** Why the engine could not run a step; see `BuildFailure`. */
  #engineReason: string | null = null;

  constructor(options: ProgressOptions) {
    this.#options = options;
    this.#onRun = options.onRun;
    this.facts = options.facts;
  }

  /** Reads the next line of the output. */
  line(text: string): void {
    const [, id, rest = ""] = /^#(\d+) (.*)$/s.exec(text) ?? [];
    if (id === undefined) return this.#readReason(this.#mask(text));
    // Reported even for a known id: an earlier line may only have looked like the step's beginning.
    if (!outputForm.test(rest)) this.#report(rest);
    const vertex = this.#vertices.get(id);
    if (vertex === undefined) this.#open(id, rest);
    else this.#read(vertex, rest);
  }

  /**
   * Reads a line without a number. After a failure the builder repeats the step's output between
   * rulers, and then says why.
   */
  #readReason(text: string): void {
    // A command may have several lines, so that the exit code is not on the first.
    this.#exitCode = /: exit code: (\d+)$/.exec(text)?.[1] ?? this.#exitCode;
    this.#engineReason = causeOf(text) ?? this.#engineReason;
    if (reasonForm.test(text)) this.#reason = text;
    if (text.trim() !== "") this.#lastLine = text;
  }

  /** Reports a step that asks the engine to fetch an address or to look up an image. */
  #report(name: string): void {
    const { onFetch, onImage, onDigest } = this.#options;
    if (fetchesAddress(name)) onFetch(name);
    const image = lookedUpImage(name);
    const source = image ?? /^FROM (\S+)/.exec(name)?.[1];
    // A name without these characters is a stage's, or an image at docker.io.
    if (source !== undefined && /[./:]/.test(source)) onImage(source);
    if (image?.includes("@") === true) onDigest(image);
  }

  #mask(text: string): string {
    return this.#options.mask(text);
  }

  /**
   * Whether the connection between the client and the engine's builder broke: because the engine
   * was killed, or by an error in their transport that rarely happens twice.
   */
  get isConnectionBroken(): boolean {
    return this.#exitCode === null && saysBroken(this.#reason);
  }

  /** Returns what is known of the failure. Called after the end of the output. */
  failure(): BuildFailure {
    const failed = this.#failed;
    return {
      step: failed?.step ?? null,
      title: failed?.title ?? null,
      image: failed?.image ?? null,
      output: failed?.output ?? "",
      problem: failed?.problem ?? null,
      reason: this.#reason === "" ? this.#lastLine : this.#reason,
      engineReason: this.#exitCode === null ? this.#engineReason : null,
      exitCode: this.#exitCode === null ? null : Number(this.#exitCode),
    };
  }

  /** Notes a new unit of work; a step of a Dockerfile is named `[stage 2/5] RUN …`. */
  #open(id: string, name: string): void {
    const [, prefix, stageName = "", number = "", text = ""] =
      /^(\[(?:(\S+) )?(\d+\/\d+)\]) (.*)$/s.exec(name) ?? [];
    const step = this.#options.steps.get(stageName) ?? null;
    const stageOfText = text.startsWith("FROM ") ? "prepare" : "commands";
    const stage = step?.stage ?? stageOfText;
    const baseImage = /^FROM (\S+)/.exec(text)?.[1];
    // Builds at the same time share steps with equal content, and BuildKit may show the step of one
    // build in the output of another.
    const isOfOtherBuild = baseImage !== undefined && !this.#isOwn(baseImage);
    const imageName = isOfOtherBuild ? undefined : (lookedUpImage(name) ?? baseImage);
    const image =
      imageName === undefined ? null : this.#mask(imageName).slice(0, titleCharactersMax);
    const full = prefix === undefined ? this.#mask(name) : `Step ${number}: ${this.#mask(text)}`;
    const shown = full.slice(0, titleCharactersMax);
    const titleOfText = isOfOtherBuild ? "Base image" : shown;
    const title = step?.title ?? titleOfText;
    if (this.#vertices.size < verticesMax) {
      // A step may run for long before it prints anything, so it counts as running unless the
      // builder soon says that its result is reused.
      const mayRun = prefix !== undefined && /^RUN\b/i.test(text) && isMetered(stage);
      const cancelRun = mayRun ? this.#options.clock.after(cachedWaitMs, () => this.#run()) : null;
      this.#vertices.set(id, { title, stage, step, image, output: "", problem: null, cancelRun });
    }
    if (name === "exporting to image") this.#options.log("code", "platform", "Exporting to image");
    if (prefix === undefined || isOfOtherBuild || this.#shown.has(title)) return;
    this.#shown.add(title);
    this.#options.log(stage, "platform", title);
  }

  /** Whether this build's Dockerfile names the image. */
  #isOwn(image: string): boolean {
    return this.#options.images.some((own) => isSameImage(own, image));
  }

  /** Reads a line about a unit of work that is known. */
  #read(vertex: Vertex, text: string): void {
    const [, time, output = ""] = outputForm.exec(text) ?? [];
    if (time !== undefined) {
      // A progress bar overwrites itself: its last state is logged.
      const states = output.replace(/\r+$/, "").split("\r");
      return this.#output(vertex, states.at(-1) ?? "");
    }
    if (text === "CACHED") vertex.cancelRun?.();
    if (text === "CACHED" && !this.#cached.has(vertex.title) && this.#shown.has(vertex.title)) {
      this.#cached.add(vertex.title);
      this.#options.log(vertex.stage, "platform", `CACHED: ${vertex.title}`);
    }
    const [, failure] = /^ERROR:? (.*)$/s.exec(text) ?? [];
    // When one step fails, the builder cancels the others.
    if (failure === undefined || /cancell?ed/i.test(failure)) return;
    const reason = this.#mask(failure);
    this.#failed ??= vertex;
    this.#reason = reason;
    this.#engineReason = causeOf(reason);
  }

  #output(vertex: Vertex, line: string): void {
    const text = this.#mask(line);
    if (this.#takeMarked(vertex, text)) return;
    if (isMetered(vertex.stage)) this.#run();
    vertex.output = `${vertex.output}${text}\n`.slice(-outputCharactersMax);
    this.#options.log(vertex.stage, "stdout", text);
  }

  /** Takes a line that a script of the builder printed for the platform; false: it is none. */
  #takeMarked(vertex: Vertex, text: string): boolean {
    // Commands of an app, also those of its own Dockerfile, can print the same marks.
    if (vertex.step === null || vertex.step.command !== undefined) return false;
    if (text.startsWith(factMark)) {
      const [name = "", value = ""] = text.slice(factMark.length).split("=");
      if (factNames.has(name)) this.facts.set(name, value.slice(0, factCharactersMax));
    } else if (text.startsWith(problemMark)) {
      vertex.problem = text.slice(problemMark.length);
    } else if (text.startsWith(warningMark)) {
      const warning = `Warning: ${text.slice(warningMark.length)}`;
      this.#options.log(vertex.stage, "platform", warning);
    } else return false;
    return true;
  }

  /** Calls `onRun` the first time. */
  #run(): void {
    this.#onRun?.();
    this.#onRun = null;
  }
}

/** How the builder, its client and the programs that run steps begin a line with a reason. */
const reasonForm =
  /^(?:error|ERROR): |^failed to |^executor failed|^Error|^Cannot connect|^unexpected EOF$/;

/** Returns the image whose metadata a step looks up; undefined when it looks up none. */
function lookedUpImage(name: string): string | undefined {
  return /^\[internal\] load metadata for (\S+)/.exec(name)?.[1];
}

/**
 * Returns the reason that follows the text of a failed command: after `]` on the command's last
 * line, or after the quoted command. Null when the line ends no command, or when an exit code
 * follows it.
 */
function causeOf(line: string): string | null {
  const [, afterBracket, afterQuote] =
    /^(?:.*[^\]])?\]: (\S.*)$|^.*" did not complete successfully: (\S.*)$/s.exec(line) ?? [];
  const cause = afterBracket ?? afterQuote;
  if (cause === undefined || /^exit code: \d+$/.test(cause)) return null;
  return cause;
}

/** Whether the steps of a stage make the environment, whose time is metered. */
function isMetered(stage: BuildStage): boolean {
  return stage === "dependencies" || stage === "commands";
}
