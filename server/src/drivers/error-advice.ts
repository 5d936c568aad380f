// Says what an app's owner can do about the error that ended a Python program. Pure.

/** `module=package` for packages whose module has another name. */
const packagesOf = namesIn(`
  attr=attrs bs4=beautifulsoup4 Crypto=pycryptodome cv2=opencv-python-headless dateutil=python-dateutil
  docx=python-docx dotenv=python-dotenv fitz=pymupdf git=gitpython jwt=pyjwt PIL=pillow
  psycopg2=psycopg2-binary skimage=scikit-image sklearn=scikit-learn yaml=pyyaml`);

/** `file=package`: the Debian packages of libraries that Python packages load. */
const librariesOf = namesIn(`
  libGL.so.1=libgl1 libglib-2.0.so.0=libglib2.0-0 libgomp.so.1=libgomp1 libgthread-2.0.so.0=libglib2.0-0
  libpq.so.5=libpq5 libsndfile.so.1=libsndfile1 libSM.so.6=libsm6 libXext.so.6=libxext6`);

/** Says how a missing system package is installed, as the end of a sentence. */
export type SystemAdvice = (what: string) => string;

/**
 * What to do about the last line of a Python program, such as `ModuleNotFoundError: No module named
 * 'x'`. Empty when there is no advice.
 */
export function errorAdvice(line: string, systemAdvice: SystemAdvice = systemPackage): string {
  const module = /^ModuleNotFoundError: No module named '([\w-]+)/.exec(line)?.[1];
  if (module !== undefined) {
    const name = packagesOf.get(module) ?? module.replaceAll("_", "-");
    return `Add its package to the app's TOML file: ${name} = "latest" below [cerebrium.dependencies.pip]. A module of your own must be a file in the app's folder (gitPath).`;
  }
  const library =
    /^(?:ImportError|OSError): (lib[\w+.-]+\.so[.\d]*): cannot open shared object file/.exec(
      line,
    )?.[1];
  if (library !== undefined) {
    // For an unknown library, the advice says "the Debian package with it".
    const debianPackage = librariesOf.get(library) ?? "with it";
    return `A system library is missing: ${systemAdvice(`the Debian package ${debianPackage}`)}`;
  }
  const variable = /^KeyError: '([A-Z][A-Z0-9_]*)'/.exec(line)?.[1];
  if (variable === undefined) return "";
  return `If ${variable} is an environment variable, add it to the secrets of the app or the project.`;
}

/** The advice of the process driver: the operator installs the package. */
export function systemPackage(what: string): string {
  return `ask the operator to install ${what} on the machine (the process driver does not install what is below [cerebrium.dependencies.apt]; the docker driver does: SLIPWAY_DRIVER=docker).`;
}

/** The advice of a driver that builds images: the app lists the package. */
export function toApt(what: string): string {
  return `add ${what} below [cerebrium.dependencies.apt] in the app's TOML file.`;
}

/** Reads a table from pairs `a=b c=d`, which white space separates. */
export function namesIn(text: string): ReadonlyMap<string, string> {
  return new Map(text.matchAll(/(\S+?)=(\S+)/g).map(([, name = "", value = ""]) => [name, value]));
}
