// The fields that every answer to one caller gets from the platform, whoever writes the answer: the
// app, or the platform itself. Pure.
import type { AnswerHead } from "./answer-head.ts";

/** The fields in node's format (name, value, …), and as lines, each with its line end. */
export type AddedFields = {
  readonly list: readonly string[];
  readonly lines: string;
  /**
   * They say which pages of other origins may read the answer, so what the app says about that is
   * dropped.
   */
  readonly replacesCors: boolean;
  /** What a script, a style sheet or a font gets instead; null: the same. */
  readonly ofAssets: AddedFields | null;
};

type More = { readonly replacesCors?: boolean; readonly ofAssets?: AddedFields | null };

/** Makes fields to add from a list of names and values: name, value, name, value … */
export function addedFields(list: readonly string[], more: More = {}): AddedFields {
  const { replacesCors = false, ofAssets = null } = more;
  let lines = "";
  for (let index = 0; index < list.length; index += 2)
    lines += `${list[index]}: ${list[index + 1]}\r\n`;
  return { list, lines, replacesCors, ofAssets };
}

/** The fields for callers of no app: none. */
export const nothingAdded = addedFields([]);

const assetForm =
  /^content-type:[ \t]*(?:text\/(?:javascript|css)|application\/(?:x-)?javascript|font\/|application\/(?:x-)?font-)/im;

/** Returns the fields to add to the answer with this head. */
export function addedTo({ text }: Pick<AnswerHead, "text">, added: AddedFields): AddedFields {
  return added.ofAssets !== null && assetForm.test(text) ? added.ofAssets : added;
}

const corsForm = /^access-control-/i;
const corsLines = /^access-control-[^\r]*\r\n/gim;

/**
 * The lines of an answer, without the app's own word on other origins where the platform has the
 * say.
 */
export function linesUnder(lines: string, { replacesCors }: AddedFields): string {
  return replacesCors ? lines.replace(corsLines, "") : lines;
}

/** The same for fields in node's format. */
export function fieldsUnder(list: string[], { replacesCors }: AddedFields): string[] {
  if (!replacesCors) return list;
  return list.filter((_, index) => !corsForm.test(list[index - (index % 2)] ?? ""));
}
