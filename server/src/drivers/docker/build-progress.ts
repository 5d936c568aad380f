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
  /** A command that may turn out to have a result of an earlier build. */
  cancelRun: (() => void) | null;
};

/** What is known of a failed build. */
export type BuildFailure = {
  /** The step that failed, when one did. */
  readonly step: ImageStep | null;
  readonly title: string | null;
  /** The image that could not be had. */
  readonly image: string | null;
  readonly exitCode: number | null;
  /** The end of the step's output. */
  readonly output: string;
  /** What the builder says about it. */
  readonly reason: string;
  /**
   * Why the engine could not run the step, or could not end it as usual; null: the step ran, or was
   * none.
   */
  readonly engineReason: string | null;
  /** What a script of the builder has said for the app's owner. */
  readonly problem: string | null;
};

export type ProgressOptions = {
  /** The steps of the Dockerfile that the builder wrote; empty for one of the app's own. */
  readonly steps: ReadonlyMap<string, ImageStep>;
  /** All images that the Dockerfile may name; absent: any. */
  readonly images?: readonly string[];
  readonly log: BuildLog;
  /**
   * Hides values of secrets in all that is shown. What is judged is the line as the builder printed
   * it: a secret could hide an address.
   */
  readonly mask?: (text: string) => string;
  /**
   * Filled with what scripts find out; of an earlier try of the same build, whose steps are not run
   * again.
   */
  readonly facts?: Map<string, string>;
  /** Called once, when packages or commands run, whether or not they print anything. */
  readonly onRun?: (() => void) | null;
  readonly clock: Clock;
  /** Called for a step in which the engine itself fetches an address. */
  readonly onFetch?: (title: string) => void;
  /** Called with each image that is looked up, or copied from. */
  readonly onImage?: (image: string) => void;
  /** Called with each image that is looked up by digest. */
  readonly onDigest?: (image: string) => void;
};

const outputCharactersMax = 20_000;
const titleCharactersMax = 300;
/** What a step prints comes behind the seconds since its start. */
const outputForm = /^(\d+\.\d+)(?: (.*))?$/s;
const verticesMax = 10_000;
/** The builder says at once that it has the result of a command. */
const cachedWaitMs = 500;
/** What scripts of the builder find out. */
const factNames = new Set(["pythonVersion", "takesRootPath"]);
const factCharactersMax = 20;

/** Reads the output of one build, line by line. */
export class BuildProgress {
  readonly #options: ProgressOptions;
  readonly #vertices = new Map<string, Vertex>();
  /** Titles in the log: of steps, and of those whose result of an earlier build is used. */
  readonly #shown = new Set<string>();
  readonly #cached = new Set<string>();
  #onRun: ProgressOptions["onRun"];
  /** What scripts found out. */
  readonly facts: Map<string, string>;
  #failed: Vertex | null = null;
  #reason = "";
  /** What the client of a newer engine says last, without a word of its own in front. */
  #lastWord = "";
  #exitCode: string | null = null;
  #engineReason: string | null = null;
  #problem: string | null = null;

  constructor(options: ProgressOptions) {
    this.#options = options;
    this.#onRun = options.onRun;
    this.facts = options.facts ?? new Map<string, string>();
  }

  /** Takes the next line. */
  line(text: string): void {
    const [, id, rest = ""] = /^#(\d+) (.*)$/s.exec(text) ?? [];
    if (id === undefined) return this.#end(this.#mask(text));
    // A line that only looks like the beginning of a step must not hide the step itself.
    if (!outputForm.test(rest)) this.#judge(rest);
    const vertex = this.#vertices.get(id);
    if (vertex === undefined) this.#open(id, rest);
    else this.#read(vertex, rest);
  }

  /** After a failure the builder repeats the step's output between rulers, and then says why. */
  #end(text: string): void {
    // Commands may have several lines.
    this.#exitCode = /: exit code: (\d+)$/.exec(text)?.[1] ?? this.#exitCode;
    this.#engineReason = causeOf(text) ?? this.#engineReason;
    if (
      /^(?:error|ERROR): |^failed to |^executor failed|^Error|^Cannot connect|^unexpected EOF$/.test(
        text,
      )
    )
      this.#reason = text;
    if (text.trim() !== "") this.#lastWord = text;
  }

  /** Reports what a step asks of the engine: to fetch an address, or to look up an image. */
  #judge(name: string): void {
    const { onFetch, onImage, onDigest } = this.#options;
    if (fetchesAddress(name)) onFetch?.(name);
    const image = lookedUp(name);
    const source = image ?? /^FROM (\S+)/.exec(name)?.[1];
    if (source !== undefined && /[./:]/.test(source)) onImage?.(source);
    if (image?.includes("@") === true) onDigest?.(image);
  }

  #mask(text: string): string {
    return this.#options.mask?.(text) ?? text;
  }

  /**
   * True: the connection between the client and the engine's builder broke, as when the engine is
   * killed, or because of an error in their transport, which another try rarely meets.
   */
  get isConnectionBroken(): boolean {
    return this.#exitCode === null && saysBroken(this.#reason);
  }

  /** What is known of the failure after the output's end. */
  failure(): BuildFailure {
    const { step = null, title = null, image = null, output = "" } = this.#failed ?? {};
    return {
      step,
      title,
      image,
      output,
      problem: this.#problem,
      reason: this.#reason === "" ? this.#lastWord : this.#reason,
      engineReason: this.#exitCode === null ? this.#engineReason : null,
      exitCode: this.#exitCode === null ? null : Number(this.#exitCode),
    };
  }

  #open(id: string, name: string): void {
    const [, own, stageName = "", number = "", text = ""] =
      /^(\[(?:(\S+) )?(\d+\/\d+)\]) (.*)$/s.exec(name) ?? [];
    const step = this.#options.steps.get(stageName) ?? null;
    const stage = step?.stage ?? (text.startsWith("FROM ") ? "prepare" : "commands");
    const based = /^FROM (\S+)/.exec(text)?.[1];
    // Builds that run at once share what has the same content, and BuildKit shows both in each.
    const isOthers = based !== undefined && !this.#isOwn(based);
    const named = isOthers ? undefined : (lookedUp(name) ?? based);
    const image = named === undefined ? null : this.#mask(named).slice(0, titleCharactersMax);
    const full = own === undefined ? this.#mask(name) : `Step ${number}: ${this.#mask(text)}`;
    const shown = full.slice(0, titleCharactersMax);
    const title = step?.title ?? (isOthers ? "Base image" : shown);
    if (this.#vertices.size < verticesMax) {
      const mayRun = own !== undefined && /^RUN\b/i.test(text) && isMetered(stage);
      const cancelRun = mayRun ? this.#options.clock.after(cachedWaitMs, () => this.#run()) : null;
      this.#vertices.set(id, { title, stage, step, image, output: "", cancelRun });
    }
    if (name === "exporting to image") this.#options.log("code", "platform", "Exporting to image");
    if (own === undefined || isOthers || this.#shown.has(title)) return;
    this.#shown.add(title);
    this.#options.log(stage, "platform", title);
  }

  #isOwn(image: string): boolean {
    const { images } = this.#options;
    return images === undefined || images.some((own) => isSameImage(own, image));
  }

  #read(vertex: Vertex, text: string): void {
    const [, time, output = ""] = outputForm.exec(text) ?? [];
    // A progress bar: what it showed last.
    if (time !== undefined)
      return this.#output(vertex, output.replace(/\r+$/, "").split("\r").at(-1) ?? "");
    if (text === "CACHED") vertex.cancelRun?.();
    if (text === "CACHED" && !this.#cached.has(vertex.title) && this.#shown.has(vertex.title)) {
      this.#cached.add(vertex.title);
      this.#options.log(vertex.stage, "platform", `CACHED: ${vertex.title}`);
    }
    const [, failure] = /^ERROR:? (.*)$/s.exec(text) ?? [];
    if (failure === undefined || /cancell?ed/i.test(failure)) return;
    const reason = this.#mask(failure);
    this.#failed ??= vertex;
    this.#reason = reason;
    this.#engineReason = causeOf(reason);
  }

  #output(vertex: Vertex, line: string): void {
    const text = this.#mask(line);
    if (text.startsWith(factMark)) {
      const [name = "", value = ""] = text.slice(factMark.length).split("=");
      // Commands of the app can print the same.
      if (vertex.step !== null && factNames.has(name))
        this.facts.set(name, value.slice(0, factCharactersMax));
      return;
    }
    if (text.startsWith(problemMark)) {
      this.#problem = text.slice(problemMark.length);
      return;
    }
    if (text.startsWith(warningMark)) {
      return this.#options.log(
        vertex.stage,
        "platform",
        `Warning: ${text.slice(warningMark.length)}`,
      );
    }
    if (isMetered(vertex.stage)) this.#run();
    vertex.output = `${vertex.output}${text}\n`.slice(-outputCharactersMax);
    this.#options.log(vertex.stage, "stdout", text);
  }

  #run(): void {
    this.#onRun?.();
    this.#onRun = null;
  }
}

/** The image whose metadata a step looks up; undefined: it looks up none. */
function lookedUp(name: string): string | undefined {
  return /^\[internal\] load metadata for (\S+)/.exec(name)?.[1];
}

/**
 * What follows the text of a step's command: in a line of its own, as commands with several lines
 * are repeated, or behind the quoted command. Null: the line ends no command, or its exit code
 * follows.
 */
function causeOf(line: string): string | null {
  const [, old, quoted] =
    /^(?:.*[^\]])?\]: (\S.*)$|^.*" did not complete successfully: (\S.*)$/s.exec(line) ?? [];
  const cause = old ?? quoted ?? null;
  return cause === null || /^exit code: \d+$/.test(cause) ? null : cause;
}

function isMetered(stage: BuildStage): boolean {
  return stage === "dependencies" || stage === "commands";
}
