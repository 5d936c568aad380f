// Saves what the platform answers as a file of the reader.
import { fetchSignedIn, refusalOf } from "#api.ts";

/** Saves what an address gives that is its own proof; the platform says the file's name. */
export function saveFrom(href: string, name = ""): void {
  const link = document.createElement("a");
  link.href = href;
  link.download = name;
  link.click();
}

/** Saves what whoever is signed in is answered at `path`, whole. Rejects with `ApiError`. */
export async function saveAnswer(path: string, name: string): Promise<void> {
  const response = await fetchSignedIn(
    new Request(new URL(path, location.origin), { cache: "no-store" }),
  );
  if (!response.ok) throw await refusalOf(response);
  const href = URL.createObjectURL(await response.blob());
  saveFrom(href, name);
  // The browser has taken it by then.
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}
