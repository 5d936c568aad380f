// Push events of hosts other than GitHub, in the form of their public documentation, with the
// fields that they send. `@octokit/webhooks-examples` has GitHub's own.

const zeros = "0".repeat(40);
/** The commits of these events. */
export const before = "95790bf891e76fee5e1747ab589903a6a1f80f22";
export const after = "da1560886d4f094c3e6c9ef40349f7d38b5d27d7";

const person = { name: "Ada Example", email: "ada@example.com", username: "ada" };
const user = {
  id: 1,
  login: "ada",
  full_name: "Ada Example",
  email: "ada@example.com",
  username: "ada",
};

/** What a test may change of an event. */
export type PushGiven = {
  readonly ref?: string;
  readonly before?: string;
  readonly after?: string;
  readonly message?: string;
  readonly modified?: readonly string[];
  readonly repository?: string;
};

type Body = Readonly<Record<string, unknown>>;

function listedCommit(given: PushGiven, host: string): Body {
  return {
    id: given.after ?? after,
    message: given.message ?? "Change the answer\n",
    url: `https://${host}/acme/app/commit/${given.after ?? after}`,
    author: person,
    committer: person,
    verification: null,
    timestamp: "2026-03-09T16:23:39+01:00",
    added: [],
    removed: [],
    modified: given.modified ?? ["main.py"],
  };
}

/** Gitea and Forgejo: five commits at most, `total_commits` says how many there are. */
export function giteaPush(given: PushGiven = {}): Body {
  const isDeleted = given.after === zeros;
  const commit = listedCommit(given, "git.example.com");
  return {
    ref: given.ref ?? "refs/heads/main",
    before: given.before ?? before,
    after: given.after ?? after,
    compare_url: `https://git.example.com/acme/app/compare/${before}...${after}`,
    commits: isDeleted ? [] : [commit],
    total_commits: isDeleted ? 0 : 1,
    head_commit: isDeleted ? null : commit,
    repository: {
      id: 1,
      owner: user,
      name: "app",
      full_name: given.repository ?? "acme/app",
      private: true,
      clone_url: "https://git.example.com/acme/app.git",
      default_branch: "main",
    },
    pusher: user,
    sender: user,
  };
}

/** GitLab: 20 commits at most; `kind` is "push" or "tag_push". */
export function gitlabPush(given: PushGiven & { readonly kind?: string } = {}): Body {
  const head = given.after ?? after;
  const commit = listedCommit(given, "gitlab.example.com");
  return {
    object_kind: given.kind ?? "push",
    event_name: given.kind ?? "push",
    before: given.before ?? before,
    after: head,
    ref: given.ref ?? "refs/heads/main",
    ref_protected: true,
    checkout_sha: head === zeros ? null : head,
    message: null,
    user_id: 4,
    user_name: "Ada Example",
    user_username: "ada",
    user_email: null,
    project_id: 15,
    project: {
      id: 15,
      name: "app",
      web_url: "https://gitlab.example.com/acme/app",
      git_http_url: "https://gitlab.example.com/acme/app.git",
      namespace: "acme",
      path_with_namespace: "acme/app",
      default_branch: "main",
    },
    commits: head === zeros ? [] : [{ ...commit, title: "Change the answer" }],
    total_commits_count: head === zeros ? 0 : 4,
    push_options: {},
    repository: {
      name: "app",
      url: "git@gitlab.example.com:acme/app.git",
      homepage: "https://gitlab.example.com/acme/app",
    },
  };
}

type CloudSide = {
  readonly type: "branch" | "tag";
  readonly name: string;
  readonly hash: string;
  readonly message?: string;
};

function cloudSide({ type, name, hash, message = "Change the answer\n" }: CloudSide): Body {
  const author = {
    type: "author",
    raw: "Ada Example <ada@example.com>",
    user: { type: "user", nickname: "ada" },
  };
  return {
    type,
    name,
    target: {
      type: "commit",
      hash,
      author,
      message,
      date: "2026-06-09T03:34:49+00:00",
      parents: [],
    },
    links: { html: { href: `https://bitbucket.org/acme/app/branch/${name}` } },
  };
}

/** Bitbucket Cloud: several refs in one event, five commits of each at most, no files. */
export function bitbucketPush(
  changes: readonly { old: CloudSide | null; new: CloudSide | null }[],
): Body {
  return {
    actor: { type: "user", nickname: "ada", display_name: "Ada Example" },
    repository: {
      type: "repository",
      uuid: "{673a6070-3421-46c9-9d48-90745f7bfe8e}",
      full_name: "acme/app",
      name: "app",
    },
    push: {
      changes: changes.map((change) => ({
        old: change.old === null ? null : cloudSide(change.old),
        new: change.new === null ? null : cloudSide(change.new),
        created: change.old === null,
        closed: change.new === null,
        forced: false,
        truncated: false,
        commits: [],
      })),
    },
  };
}
