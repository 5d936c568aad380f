// Finds the folders that a Python interpreter needs, so that a sandbox can show only those.
import { existsSync, readlinkSync, realpathSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { isBelow } from "./system-mounts.ts";

/** The maximum length of a chain of links, which may lead in a circle. */
const linksMax = 20;

/**
 * The prefix of every interpreter in the chain of links from `python`. The prefix of
 * `~/.pyenv/versions/3.11.7/bin/python`, for example, is `~/.pyenv/versions/3.11.7`. If a prefix
 * contains one of the folders `guarded` (a home, the data folder), returns only the parts of the
 * prefix that belong to Python.
 */
export function interpreterFolders(python: string, guarded: readonly string[]): string[] {
  // The real path also resolves links among the folders of the path.
  const programs = new Set([...linkChain(python), realpathSync(python)]);
  const prefixes = new Set([...programs].map((program) => dirname(dirname(program))));
  return [...prefixes].flatMap((prefix) => {
    if (!guarded.some((folder) => isBelow(folder, prefix))) return [prefix];
    return ["bin", "lib", "lib64", "include"]
      .map((name) => join(prefix, name))
      .filter((path) => existsSync(path));
  });
}

function linkChain(python: string): string[] {
  const paths = [];
  for (let path = python, links = 0; links < linksMax; links++) {
    paths.push(path);
    try {
      path = resolve(dirname(path), readlinkSync(path));
    } catch {
      // The path is not a link, so the chain ends here.
      break;
    }
  }
  return paths;
}
