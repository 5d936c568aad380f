// Writes the shell scripts of the steps of a Dockerfile, which run as root in the image. A script
// that cannot do its work says why in a line that begins with `problemMark`. It reports facts in
// lines that begin with `factMark`. Pure.
import type { BuildPlan } from "#drivers/builder.ts";
import { noUv, projectCommand } from "#drivers/project-command.ts";
import { shellQuoted } from "#lib/shell-quoted.ts";

/** Precedes a sentence for the app's owner that ends the build. */
export const problemMark = "slipway-problem: ";
/** Precedes a sentence for the app's owner that does not end the build. */
export const warningMark = "slipway-warning: ";
/** Precedes a fact of the image: `name=value`. */
export const factMark = "slipway-fact: ";

/** Paths in images of apps. */
export const imagePaths = {
  code: "/cortex",
  home: "/home/app",
  storage: "/persistent-storage",
  environment: "/opt/venv",
  runtime: "/opt/slipway",
  conda: "/opt/conda-packages",
} as const;

/** The secrets with the variables of the build and the machine's certificates; in no layer. */
export const buildSecrets = {
  variables: "slipway-variables",
  certificates: "slipway-certificates",
} as const;

/** The folder in which steps keep the project's downloads; in no layer. */
export const downloadsPath = "/var/cache/slipway";

const python = `${imagePaths.environment}/bin/python`;
/** Returns commands that end the step with a sentence for the app's owner. */
const problem = (text: string): string => `{ echo "${problemMark}${text}"; exit 1; }`;

/** The beginning of every script. */
const prelude = `set -e
umask 022
export DEBIAN_FRONTEND=noninteractive PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
[ ! -f /run/secrets/${buildSecrets.variables} ] || . /run/secrets/${buildSecrets.variables}
apt_get() { apt-get -o Acquire::Retries=3 "$@"; }
`;

/**
 * Returns lines that set secrets as variables from the files with their names, byte for byte: a dot
 * after each value keeps the newlines at its end, which the shell would remove.
 */
function secretLines(names: readonly string[]): string {
  const file = (name: string): string => `/run/secrets/${name}`;
  const lines = names.map(
    (name) => `${name}=$(cat ${file(name)}; echo .) && export ${name}="\${${name}%.}"\n`,
  );
  return lines.join("");
}

/**
 * Returns a line that gives the files of a step to the app's user, for the end of the same step. If
 * a later step did this, the image would store the files a second time.
 */
function changeOwner(user: number): string {
  return `find ${imagePaths.code} ${imagePaths.home} ! -user ${user} -exec chown -h ${user}:${user} {} +\n`;
}

/** Returns the script that adds the account of the app's user and its folders. */
export function accountScript(user: number): string {
  const { code, home, storage } = imagePaths;
  return `${prelude}for file in passwd group; do touch /etc/$file; sed -i '/^app:/d' /etc/$file; done
echo 'app:x:${user}:${user}:app:${home}:/bin/sh' >>/etc/passwd
echo 'app:x:${user}:' >>/etc/group
mkdir -p ${code} ${home} ${storage}
chown ${user}:${user} ${code} ${home} ${storage}
`;
}

/**
 * Returns the script that makes an environment with the app's Python: conda's, if `isOfConda`.
 * `find_python` sets `python` to a program of the version that it is given. `lists` says whether
 * the distribution has a package, and `add` installs packages. If neither the image nor the
 * distribution has the version, uv downloads it, unless `replacement` finds a newer one. `seed` is
 * a Python of any version, with which uv is installed. Unless `origin` is `added`, the environment
 * also sees the packages that the image's Python has.
 */
export function environmentScript(plan: BuildPlan, isOfConda: boolean): string {
  const { pythonVersion: version, isPythonVersionGiven: isGiven } = plan;
  const isListed = plan.requirements.length > 0 || plan.project !== null;
  const hasCommands = plan.preBuildCommands.length > 0 || plan.shellCommands.length > 0;
  const needsPip = isListed || hasCommands;
  const programs = isOfConda ? `${imagePaths.conda}/bin/python` : '"python$1" python3 python';
  const modules = needsPip ? withModule("venv") + withModule("ensurepip") : withModule("venv");
  const options = needsPip ? "" : "--without-pip";
  return `${prelude}asked=${version}
is() { [ "$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$2" ]; }
find_python() {
  for name in ${programs}; do
    python=$(command -v "$name") && is "$python" "$1" && return 0
  done
  python=; return 1
}
lists() { command -v apt-get >/dev/null && { [ -n "$updated" ] || { updated=1; apt_get update -qq; }; } && [ -n "$(apt-cache madison "$1" 2>/dev/null)" ]; }
add() { echo "Installing $*"; apt_get install -y -qq --no-install-recommends "$@" >/dev/null; }
origin=image
find_python $asked || {
  origin=added
  if lists python$asked; then
    add python$asked
    ! lists python$asked-venv || add python$asked-venv
    find_python $asked || true
  else
${isGiven ? "" : replacement}    [ -n "$python" ] || {
      seed=$(command -v python3) || { ! lists python3 || add python3; seed=$(command -v python3) || true; }
      if [ -n "$seed" ] && ! "$seed" -c 'import ensurepip' 2>/dev/null; then ! lists python3-venv || add python3-venv; fi
      if [ -n "$seed" ] && "$seed" -m venv /tmp/uv && /tmp/uv/bin/pip install -q --no-input uv; then
        /tmp/uv/bin/uv python install --no-progress --install-dir /opt/python $asked || true
        python=$(ls -d /opt/python/cpython-$asked.*/bin/python$asked 2>/dev/null | tail -n 1)
      fi
      rm -rf /tmp/uv
    }
  fi
}
[ -n "$python" ] || ${problem("Python $asked is neither in the base image nor among its distribution's packages, and uv cannot download it. Set pythonVersion to one that is there, choose a base image with Python $asked (baseImage), or ask the operator to set UV_PYTHON_INSTALL_MIRROR to a server that has it.")}
${modules}options=${options}
[ $origin = added ] || options="$options --system-site-packages"
"$python" -m venv $options ${imagePaths.environment} || ${problem("The base image's Python cannot create a virtual environment: choose a base image whose Python has venv and ensurepip, or one without Python (baseImage).")}
`;
}

/** Installs the distribution's package, which has both modules, if Python lacks this module. */
function withModule(name: "venv" | "ensurepip"): string {
  return `"$python" -c 'import ${name}' 2>/dev/null || { version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])'); ! lists python$version-venv || add python$version-venv; }\n`;
}

/** Finds the nearest newer version in the image, else in its distribution. */
const replacement = `    for minor in 8 9 10 11 12 13 14 15; do
      [ $minor -gt \${asked#3.} ] && find_python 3.$minor && origin=image && break
    done
    [ -n "$python" ] || { ! lists python3 || { add python3; ! lists python3-venv || add python3-venv; python=$(command -v python3); }; }
    [ -z "$python" ] || echo "${warningMark}Python $asked, the default, is not in the base image: $("$python" --version) is used. Set pythonVersion to choose."
`;

/** Returns the script that installs Debian's packages. */
export function aptScript({ aptPackages, baseImage }: BuildPlan): string {
  // Settings separate a version with `==`, apt with `=`.
  const names = aptPackages.map((name) => shellQuoted(name.replace("==", "=")));
  return `${prelude}command -v apt-get >/dev/null || ${problem(`The base image ${baseImage} has no apt-get, so what is below dependencies.apt cannot be installed. Remove it, or choose a base image that is a Debian or Ubuntu (baseImage).`)}
apt_get update -qq
apt_get install -y --no-install-recommends -- ${names.join(" ")}
`;
}

/** Returns the script that installs conda's packages and its Python in a folder of their own. */
export function condaScript({ condaPackages, pythonVersion }: BuildPlan): string {
  const names = [`python=${pythonVersion}`, ...condaPackages].map((name) => shellQuoted(name));
  return `${prelude}for conda in micromamba mamba conda none; do command -v $conda >/dev/null && break; done
[ $conda != none ] || ${problem("The base image has no conda, so what is below dependencies.conda cannot be installed. Choose a base image with micromamba, mamba or conda (baseImage), or list the packages below dependencies.pip or dependencies.apt.")}
$conda create -y -q -p ${imagePaths.conda} -c conda-forge -- ${names.join(" ")}
`;
}

/**
 * Returns the script that installs the app's Python packages. `file` lists them; `folder` contains
 * the files of the app's Python project. With secrets no answer of a package index is cached, since
 * a cache may also store the request with its secret. The line that ends with INSTALL_STARTED marks
 * in the log where the installation begins.
 */
export function packagesScript(
  { useUv, project, requirements }: BuildPlan,
  {
    file,
    folder,
    secrets,
  }: { readonly file: string; readonly folder: string; readonly secrets: readonly string[] },
): string {
  const hasSecrets = secrets.length > 0;
  const start = `${prelude}${secretLines(secrets)}${hasSecrets ? "export PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1\n" : ""}`;
  const cache = (variable: string, name: string): string =>
    hasSecrets ? "" : `${variable}=${downloadsPath}/${name} `;
  const pip = `${cache("PIP_CACHE_DIR", "pip")}${python} -m pip install --no-input --progress-bar off`;
  if (!useUv && project === null) return `${start}echo PIP_INSTALL_STARTED\n${pip} -r ${file}\n`;
  const options = "--no-progress --compile-bytecode --link-mode copy";
  const uvCache = `${cache("UV_CACHE_DIR", "uv")}UV_PROJECT_ENVIRONMENT=${imagePaths.environment}`;
  // The first word is uv itself, whose path the script finds out.
  const parameters = project === null ? [] : projectCommand(project, { uv: "uv", python }).slice(1);
  const installProject = `cd ${folder}\n${uvCache} "$uv" ${parameters.map((word) => shellQuoted(word)).join(" ")}\n`;
  const installList = `${uvCache} "$uv" pip install ${options} --python ${python} -r ${file}\n`;
  const withoutUv = project === null ? withPip(`${pip} -r ${file}`) : problem(noUv);
  return `${start}uv=$(command -v uv) || { uv=${downloadsPath}/tools/bin/uv; [ -x $uv ] || ${pip} -q --target ${downloadsPath}/tools --only-binary :all: uv || true; }
[ -x "$uv" ] || ${withoutUv}
echo UV_PIP_INSTALL_STARTED
${project === null ? "" : installProject}${requirements.length === 0 ? "" : installList}`;
}

/** Returns what a script does without uv: it says so, and ends by installing with pip. */
function withPip(command: string): string {
  return `{ echo "${warningMark}uv cannot be installed here; pip installs the packages instead."; exec env ${command}; }`;
}

/** Returns the script that runs one command of the app, with a shell, in the app's folder. */
export function commandScript(line: string, user: number, secrets: readonly string[]): string {
  return `${prelude}${secretLines(secrets)}export PYTHONUNBUFFERED=1
/bin/sh -c ${shellQuoted(line)}
${changeOwner(user)}`;
}

/** Compiles the runtime for the app's Python. */
export const runtimeScript = `${prelude}${python} -I -m compileall -q ${imagePaths.runtime}\n`;

/**
 * Returns the script that compiles the app's files, which speeds up the first start, and reports
 * the facts. The script contains the build's id, so that its result never comes from an earlier
 * build.
 */
export function finishScript({ buildId, runtime }: BuildPlan, user: number): string {
  return `# Build ${buildId}
${prelude}${python} -I -m compileall -q ${imagePaths.code} >/dev/null || true
${changeOwner(user)}${python} -I -c 'import sys; print("${factMark}pythonVersion=%d.%d" % sys.version_info[:2])'
${runtime === "custom" ? rootPathFact : ""}`;
}

/**
 * Reports whether the app's uvicorn can be told the path of the app. Decides in the same way as
 * `process/root-path.ts`.
 */
const rootPathFact = `${python} -I - <<'END'
import importlib.metadata as found, os, re
def is_from(name, minimum):
    try:
        return tuple(map(int, re.findall("[0-9]+", found.version(name))[:2])) >= minimum
    except Exception:
        return False
own = ""
form = re.compile(r"root_path|url\\.path|\\[.path.\\]|X-Forwarded-Prefix")
if is_from("uvicorn", (0, 26)) and is_from("starlette", (0, 35)):
    for folder, _, names in os.walk("${imagePaths.code}"):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".py") and os.path.isfile(path) and not own:
                if form.search(open(path, errors="replace").read()):
                    own = os.path.relpath(path, "${imagePaths.code}")
    if own:
        print(f"{own} handles paths itself, so uvicorn is not told the app's path; see docs/guides/web-apps.md.")
    else:
        print("uvicorn is told the app's path (UVICORN_ROOT_PATH), so that links such as those of /docs lead below it.")
        print("${factMark}takesRootPath=true")
END
`;
