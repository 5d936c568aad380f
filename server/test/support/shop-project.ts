// A Python project whose packages uv installs, with a lock file that names another version than
// would be chosen.

/** Has the extra `old`, and a group that cannot be installed. */
export const shop = `[project]
name = "shop"
version = "1"
requires-python = ">=3.8"
dependencies = ["six<1.17"]
[project.optional-dependencies]
old = ["toml==0.10.2"]
[dependency-groups]
dev = ["no-such-package-of-ours"]
`;

const sixWheel =
  "https://files.pythonhosted.org/packages/d9/5a/e7c31adbe875f2abbb91bd84cf2dc52d792b5a01506781dbcf25c91daf11/six-1.16.0-py2.py3-none-any.whl";

/** That of the wheel. */
export const sixHash = "8abb2f1d86890a2dfb989f9a77cfcfd3e47c2a354b01111771326f8aa26e0254";

/** The project's `uv.lock`, with this hash of six. */
export function shopLock(hash: string): string {
  return `version = 1
requires-python = ">=3.8"

[[package]]
name = "shop"
version = "1"
source = { virtual = "." }
dependencies = [{ name = "six" }]

[[package]]
name = "six"
version = "1.16.0"
source = { registry = "https://pypi.org/simple" }
wheels = [{ url = "${sixWheel}", hash = "sha256:${hash}" }]
`;
}
