// Pushes of Bitbucket: Cloud, and Data Center, whose bodies have another form. Neither lists files. One push moves several refs.
import { z } from "zod";
import { commitOf, fieldOf, type GitHost, type RefUpdate } from "#pushes/push.ts";
import { isHmacSigned } from "#pushes/signature.ts";

const side = z
  .object({
    type: z.string(),
    name: z.string(),
    target: z.object({
      hash: z.string(),
      message: z.string().nullish(),
      author: z.object({ raw: z.string().nullish() }).nullish(),
    }),
  })
  .nullish();
const cloudPush = z.object({ push: z.object({ changes: z.array(z.object({ new: side, old: side })) }) });
const serverPush = z.object({
  changes: z.array(z.object({ ref: z.object({ id: z.string() }), fromHash: z.string(), toHash: z.string() })),
});

/** bitbucket.org and Bitbucket Data Center. */
export const bitbucket: GitHost = {
  kind: "bitbucket",
  event: (headers) => fieldOf(headers, "x-event-key"),
  deliveryKey: (headers) => fieldOf(headers, "x-request-uuid") ?? fieldOf(headers, "x-request-id"),
  isSigned: (message) => isHmacSigned(["x-hub-signature"], message),
  updates(event, body) {
    if (event === "repo:push") return cloudPush.parse(body).push.changes.flatMap(cloudUpdate);
    if (event === "repo:refs_changed") return serverPush.parse(body).changes.map(serverUpdate);
    return [];
  },
};

function cloudUpdate(change: { new?: z.infer<typeof side>; old?: z.infer<typeof side> }): RefUpdate[] {
  const named = change.new ?? change.old;
  if (!named) return [];
  const { message, author } = change.new?.target ?? {};
  return [
    {
      ref: `refs/${named.type === "tag" ? "tags" : "heads"}/${named.name}`,
      before: change.old ? commitOf(change.old.target.hash) : null,
      after: change.new ? commitOf(change.new.target.hash) : null,
      message: message ?? null,
      author: author?.raw ?? null,
      files: [],
      isComplete: false,
    },
  ];
}

function serverUpdate({ ref, fromHash, toHash }: z.infer<typeof serverPush>["changes"][number]): RefUpdate {
  const unknown = { message: null, author: null, files: [], isComplete: false };
  return { ref: ref.id, before: commitOf(fromHash), after: commitOf(toHash), ...unknown };
}
