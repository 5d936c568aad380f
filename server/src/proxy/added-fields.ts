// The header fields that the platform adds to the answer to a request, whether the app or the
// platform writes the answer. Pure.
import type { AnswerHead } from "./answer-head.ts";

export type AddedFields = {
  /** The fields in Node's format: name, value, name, value … */
  readonly list: readonly string[];
  /** The same fields as header lines, each with its line end. */
  readonly lines: string;
  /** The fields contain the CORS fields of the answer, so the app's own CORS fields are dropped. */
  readonly replacesCors: boolean;
  /** The fields for scripts, style sheets and fonts; null: these get the same fields as others. */
  readonly ofAssets: AddedFields | null;
};

type AddedOptions = { readonly replacesCors?: boolean; readonly ofAssets?: AddedFields | null };

/** Makes fields to add from a list of names and values: name, value, name, value … */
export function addedFields(list: readonly string[], options: AddedOptions = {}): AddedFields {
  const { replacesCors = false, ofAssets = null } = options;
  let lines = "";
  for (let index = 0; index < list.length; index += 2)
    lines += `${list[index]}: ${list[index + 1]}\r\n`;
  return { list, lines, replacesCors, ofAssets };
}

/** No fields, for requests that name no app. */
export const nothingAdded = addedFields([]);

/**
 * Returns the fields with one more, which makes browsers use only HTTPS for the host name during
 * the next `seconds`.
 */
export function withHsts(
  { list, replacesCors, ofAssets }: AddedFields,
  seconds: number,
): AddedFields {
  return addedFields([...list, "Strict-Transport-Security", `max-age=${seconds}`], {
    replacesCors,
    ofAssets: ofAssets === null ? null : withHsts(ofAssets, seconds),
  });
}

/** The content type of a script, a style sheet or a font. */
const assetForm =
  /^content-type:[ \t]*(?:text\/(?:javascript|css)|application\/(?:x-)?javascript|font\/|application\/(?:x-)?font-)/im;

/** Chooses between the fields for assets and for other answers, by the answer's content type. */
export function addedTo({ text }: Pick<AnswerHead, "text">, added: AddedFields): AddedFields {
  return added.ofAssets !== null && assetForm.test(text) ? added.ofAssets : added;
}

/** The beginning of a CORS field's name. */
const corsForm = /^access-control-/i;
/** All lines of CORS fields, with their line ends. */
const corsLines = /^access-control-[^\r]*\r\n/gim;

/** The lines of an answer, without the app's CORS fields if the added fields replace them. */
export function linesUnder(lines: string, { replacesCors }: AddedFields): string {
  return replacesCors ? lines.replace(corsLines, "") : lines;
}

/** Like `linesUnder`, for fields in Node's format. */
export function fieldsUnder(list: string[], { replacesCors }: AddedFields): string[] {
  if (!replacesCors) return list;
  return list.filter((_, index) => {
    // A name has an even index, and its value the next one.
    const nameIndex = index - (index % 2);
    return !corsForm.test(list[nameIndex] ?? "");
  });
}
