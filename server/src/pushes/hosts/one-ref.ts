// The body that GitHub, Gitea, Forgejo and GitLab share: a push moves one ref, and commits list their files.
import { z } from "zod";
import { commitOf, type RefUpdate } from "#pushes/push.ts";

/** GitHub lists at most this many commits of a push, and files of a commit. */
const listedMax = { commits: 2048, files: 3000 } as const;

const paths = z.array(z.string()).nullish();
const commit = z.object({
  id: z.string(),
  message: z.string(),
  author: z.object({ name: z.string(), email: z.string().nullish() }).nullish(),
  added: paths,
  removed: paths,
  modified: paths,
});
const push = z.object({
  ref: z.string(),
  before: z.string(),
  after: z.string(),
  created: z.boolean().nullish(),
  forced: z.boolean().nullish(),
  commits: z.array(commit).nullish(),
  head_commit: commit.nullish(),
});

/** Reads the body. Only GitHub says that a push was not forced, and so that its list is complete. Throws a TypeError or ZodError. */
export function readOneRef(body: unknown): RefUpdate {
  const { ref, before, after, created, forced, commits, head_commit: named } = push.parse(body);
  const head = named ?? commits?.find((one) => one.id === after);
  const listed = (commits ?? []).map((one) => [one.added, one.removed, one.modified].flatMap((list) => list ?? []));
  const isShort = listed.length < listedMax.commits && listed.every((files) => files.length < listedMax.files);
  return {
    ref,
    before: commitOf(before),
    after: commitOf(after),
    message: head?.message ?? null,
    author: head?.author ? `${head.author.name} <${head.author.email ?? ""}>` : null,
    files: listed.flat(),
    isComplete: created === false && forced === false && listed.length > 0 && isShort,
  };
}
