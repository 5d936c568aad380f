// Reads the bodies of push events into one form for all git hosts. Throws a TypeError or ZodError
// for a body of another form.
import { z } from "zod";

/** The move of one branch or tag. */
export type RefUpdate = {
  /** The full name: `refs/heads/…` or `refs/tags/…`. */
  readonly ref: string;
  /** Null: the ref is new. */
  readonly before: string | null;
  /** Null: the ref was deleted. */
  readonly after: string | null;
  /** The message of the commit `after`; null: the host does not send it. */
  readonly message: string | null;
  /** The author of the commit `after` as `name <address>`; null: the host does not send it. */
  readonly author: string | null;
  /** The changed files that the host lists. More files may have changed. */
  readonly files: readonly string[];
  /** True when the host lists every commit and every file between `before` and `after`. */
  readonly isComplete: boolean;
};

/** GitHub lists at most this many commits of a push, and this many files of each commit. */
const listedMax = { commits: 2048, files: 3000 } as const;

const commitId = z.string().regex(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/);
/** An id of zeros means that there is no commit. */
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
/** A ref of Bitbucket before or after a push; null: it did not exist then. */
const refSide = z
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
  push: z.object({ changes: z.array(z.object({ new: refSide, old: refSide })) }),
});

/** GitLab sends a project, the other hosts send a repository. */
const repositoryName = z.union([
  z
    .object({ project: z.object({ path_with_namespace: z.string() }) })
    .transform((body) => body.project.path_with_namespace),
  z
    .object({ repository: z.object({ full_name: z.string() }) })
    .transform((body) => body.repository.full_name),
]);

/** The repository of an event, as `owner/name`; null: the event does not name it. */
export function repositoryIn(body: unknown): string | null {
  return repositoryName.safeParse(body).data ?? null;
}

/**
 * Reads a push of GitHub, Gitea, Forgejo or GitLab, which moves one ref, and whose commits list
 * their files. Only GitHub says whether a push was forced; unless a host says that it was not, its
 * list may be incomplete.
 */
export function readOneRef(body: unknown): RefUpdate[] {
  const push = oneRef.parse(body);
  const { ref, before, after, created, forced } = push;
  const commits = push.commits ?? [];
  const head = push.head_commit ?? commits.find(({ id }) => id === after);
  const filesOfCommits = commits.map(({ added, removed, modified }) =>
    [added, removed, modified].flatMap((list) => list ?? []),
  );
  // A list at its limit may go on.
  const isWithinLimits =
    commits.length < listedMax.commits &&
    filesOfCommits.every((files) => files.length < listedMax.files);
  return [
    {
      ref,
      before,
      after,
      message: head?.message ?? null,
      files: filesOfCommits.flat(),
      author: head?.author ? `${head.author.name} <${head.author.email ?? ""}>` : null,
      isComplete: created === false && forced === false && commits.length > 0 && isWithinLimits,
    },
  ];
}

/** Reads a push of Bitbucket, which can move several refs, and lists no files. */
export function readSeveralRefs(body: unknown): RefUpdate[] {
  const { changes } = severalRefs.parse(body).push;
  return changes.map(updateOf).filter((update) => update !== null);
}

type Change = z.infer<typeof severalRefs>["push"]["changes"][number];

function updateOf({ new: next, old }: Change): RefUpdate | null {
  const side = next ?? old;
  if (!side) return null;
  // A push that deletes a ref has no new side, so there is no commit after it.
  const { message = null, author, hash: after = null } = next?.target ?? {};
  const folder = side.type === "tag" ? "tags" : "heads";
  return {
    ref: `refs/${folder}/${side.name}`,
    before: old?.target.hash ?? null,
    after,
    message,
    author: author?.raw ?? null,
    files: [],
    isComplete: false,
  };
}
