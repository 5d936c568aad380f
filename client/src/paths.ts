// The types of all requests and answers of the management API, in the form that openapi-fetch
// takes: derived from the table of routes that the document is generated from, so that they cannot
// differ from it.
import type { z } from "zod";
import type { Field, ValueOf } from "@slipway/contract/field.ts";
import type { BodyShape, Route } from "@slipway/contract/route.ts";
import type { routes, RouteId } from "@slipway/contract/routes.ts";

/** Every refusal. */
export type RefusalBody = { readonly message: string };

type Json<Content> = { readonly content: { readonly "application/json": Content } };

type NamesIn<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | NamesIn<Rest>
  : never;

/**
 * A single value counts as a list of one, and a number may be sent as a text, where the field's row
 * says so.
 */
type SentValue<F extends Field> =
  | (F extends { isSingleAllowed: true } ? ValueOf<F>[number & keyof ValueOf<F>] : never)
  | (F extends { isTextAllowed: true } ? string : never)
  | ValueOf<F>;

type FieldsBody<Shape extends BodyShape & { kind: "fields" }> = {
  readonly [Name in Shape["required"][number] & keyof Shape["fields"]]: SentValue<
    Shape["fields"][Name]
  >;
} & {
  readonly [Name in keyof Shape["fields"]]?:
    | SentValue<Shape["fields"][Name]>
    | (Shape extends { areNullable: true } ? null : never);
};

type BodyOf<R extends Route> = R["body"] extends BodyShape & { kind: "fields" }
  ? FieldsBody<R["body"]>
  : R["body"] extends BodyShape
    ? Readonly<Record<string, string>>
    : R extends { takesBytes: true } | { takesStream: true }
      ? Blob | Uint8Array | ReadableStream | string
      : never;

type RequestBody<R extends Route> = [BodyOf<R>] extends [never]
  ? { readonly requestBody?: never }
  : Record<never, never> extends BodyOf<R>
    ? { readonly requestBody?: Json<BodyOf<R>> }
    : { readonly requestBody: Json<BodyOf<R>> };

type QueryOf<R extends Route> =
  R["query"] extends Readonly<Record<string, Field>>
    ? { readonly query?: { readonly [Name in keyof R["query"]]?: ValueOf<R["query"][Name]> } }
    : { readonly query?: never };

type PathOf<R extends Route> = [NamesIn<R["path"]>] extends [never]
  ? { readonly path?: never }
  : { readonly path: Readonly<Record<NamesIn<R["path"]>, string>> };

/** One route; an answer that is bytes is asked for with `parseAs`. */
type Operation<R extends Route> = RequestBody<R> & {
  readonly parameters: PathOf<R> &
    QueryOf<R> & { readonly header?: Readonly<Record<string, string>> };
  readonly responses: Readonly<Record<R["status"], Json<z.output<R["answer"]>>>> & {
    readonly default: Json<RefusalBody>;
  };
};

type Routes = typeof routes;

/** All routes by path and method. */
export type Paths = {
  readonly [Path in Routes[RouteId]["path"]]: {
    readonly [
      Id in RouteId as Routes[Id]["path"] extends Path
        ? Path extends Routes[Id]["path"]
          ? Lowercase<Routes[Id]["method"]>
          : never
        : never
    ]: Operation<Routes[Id]>;
  };
};
