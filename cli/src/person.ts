// The person behind a sign-in, as reported by the platform.
import { fieldsOf, textOf } from "./answer.ts";
import type { ApiClient } from "./api-client.ts";

/** A person. */
export type Person = { readonly email: string; readonly name: string };

/** The person to whom the client's token belongs. */
export async function personOf(client: ApiClient): Promise<Person> {
  const person = fieldsOf(fieldsOf(await client.get("/v2/auth/session"))["person"]);
  return { email: textOf(person, "email"), name: textOf(person, "name") };
}
