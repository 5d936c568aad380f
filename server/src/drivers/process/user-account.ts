// The account of a sandboxed program, as the files in /etc name it. Pure.

export type UserAccount = {
  /** The user id of the program, as it sees it. */
  readonly user: number;
  readonly home: string;
};

/** Content of files in /etc, by name. */
export function accountFiles({
  user,
  home,
}: UserAccount): Readonly<Record<"passwd" | "group", string>> {
  const account = (name: string, id: number, folder: string): string =>
    `${name}:x:${id}:${id}:${name}:${folder}:/bin/sh\n`;
  // The id 0 can have only one name, which is `app` then.
  const isRoot = user === 0;
  const rootAccount = isRoot ? "" : account("root", 0, "/");
  const rootGroup = isRoot ? "" : "root:x:0:\n";
  return {
    passwd: `${account("app", user, home)}${rootAccount}${account("nobody", 65_534, "/nonexistent")}`,
    group: `app:x:${user}:\n${rootGroup}nogroup:x:65534:\n`,
  };
}
