// Reads the bodies of push events into one form for all git hosts. Throws a TypeError or ZodError
// for a body of another form.
import { z } from "zod";

/** The move of one branch or tag. */
export type RefUpdate = {
  /** `refs/heads/…` or `refs/tags/…`. */
  readonly ref: string;
  /** Null: the ref is new. */
  readonly before: string | null;
  /** Null: the ref was deleted. */
  readonly after: string | null;
  /** The message of the commit `after`; null when the host does not say. */
  readonly message: string | null;
  /** `name <address>`. */
  readonly author: string | null;
  /** Files that the host says were changed; there may be more. */
  readonly files: readonly string[];
  /** True when the host lists every commit and every file between `before` and `after`. */
  readonly isComplete: boolean;
};

/** GitHub lists at most this many commits of a push, and files of a commit. */
const listedMax = { commits: 2048, files: 3000 } as const;

const commitId = z.string().regex(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/);
/** Zeros mean none. */
const commitOrNone = commitId.transform((id) => (/^0+$/.test(id) ? null : id));
const paths = z.array(z.string()).nullish();
const commit = z.object({
  id: z.string(),
  message: z.string(),
  author: z.object({ name: z.string(), email: z.string().nullish() }).nullish(),
  added: paths,
  removed: paths,
  modified: paths,
});
const oneRef = z.object({
  ref: z.string(),
  before: commitOrNone,
  after: commitOrNone,
  created: z.boolean().nullish(),
  forced: z.boolean().nullish(),
  commits: z.array(commit).nullish(),
  head_commit: commit.nullish(),
});
const side = z
  .object({
    type: z.string(),
    name: z.string(),
    target: z.object({
      hash: commitOrNone,
      message: z.string().nullish(),
      author: z.object({ raw: z.string().nullish() }).nullish(),
    }),
  })
  .nullish();
const severalRefs = z.object({
  push: z.object({ changes: z.array(z.object({ new: side, old: side })) }),
});

/** GitLab's is the first; the others call theirs a repository. */
const named = z.union([
  z
    .object({ project: z.object({ path_with_namespace: z.string() }) })
    .transform((body) => body.project.path_with_namespace),
  z
    .object({ repository: z.object({ full_name: z.string() }) })
    .transform((body) => body.repository.full_name),
]);

/** The repository of an event, as `owner/name`; null when it does not say. */
export function repositoryIn(body: unknown): string | null {
  return named.safeParse(body).data ?? null;
}

/**
 * GitHub, Gitea, Forgejo and GitLab: a push moves one ref, and commits list their files. Only
 * GitHub says that a push was not forced, and so that its list is complete.
 */
export function readOneRef(body: unknown): RefUpdate[] {
  const { ref, before, after, created, forced, commits, head_commit: named } = oneRef.parse(body);
  const head = named ?? commits?.find((one) => one.id === after);
  const listed = (commits ?? []).map((one) =>
    [one.added, one.removed, one.modified].flatMap((list) => list ?? []),
  );
  const isShort =
    listed.length < listedMax.commits && listed.every((files) => files.length < listedMax.files);
  return [
    {
      ref,
      before,
      after,
      message: head?.message ?? null,
      files: listed.flat(),
      author: head?.author ? `${head.author.name} <${head.author.email ?? ""}>` : null,
      isComplete: created === false && forced === false && listed.length > 0 && isShort,
    },
  ];
}

/** Bitbucket: a push moves several refs, and no files are listed. */
export function readSeveralRefs(body: unknown): RefUpdate[] {
  return severalRefs.parse(body).push.changes.flatMap(({ new: next, old }) => {
    const named = next ?? old;
    if (!named) return [];
    const ref = `refs/${named.type === "tag" ? "tags" : "heads"}/${named.name}`;
    const { message = null, author, hash: after = null } = next?.target ?? {};
    const before = old?.target.hash ?? null;
    return [
      { ref, before, after, message, author: author?.raw ?? null, files: [], isComplete: false },
    ];
  });
}
