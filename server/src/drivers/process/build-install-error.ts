// Explains a failure of pip or uv in a sentence that says what to do next. Pure.
import { buildAgain } from "@slipway/contract/advice.ts";
import { failingLine } from "#lib/failing-line.ts";
import { namesIn, systemPackage, type SystemAdvice } from "#drivers/error-advice.ts";

type Rule = {
  readonly form: RegExp;
  readonly sentence: (match: RegExpExecArray, advice: SystemAdvice) => string;
};

/** The maximum length of the line that a sentence quotes. */
const lineCharactersMax = 300;
const where = "under dependencies.pip, or in requirements.txt or pyproject.toml";
const credentials =
  'Set them as secrets, name these below [slipway.build] (secrets = ["PIP_TOKEN"]) and as ${PIP_TOKEN} in the index\'s address';

/**
 * Debian packages of headers that Python packages are compiled with, by the header's path or its
 * folder.
 */
const packagesOf = namesIn(`
  alsa/=libasound2-dev bzlib.h=libbz2-dev cairo.h=libcairo2-dev curl/=libcurl4-openssl-dev ffi.h=libffi-dev
  gdal.h=libgdal-dev geos_c.h=libgeos-dev hdf5.h=libhdf5-dev jpeglib.h=libjpeg-dev lber.h=libldap2-dev
  libavformat/=libavformat-dev libpq-fe.h=libpq-dev libxml/=libxml2-dev libxslt/=libxslt1-dev
  lzma.h=liblzma-dev mpi.h=libopenmpi-dev mysql.h=default-libmysqlclient-dev openssl/=libssl-dev
  portaudio.h=portaudio19-dev Python.h=python3-dev snappy-c.h=libsnappy-dev sndfile.h=libsndfile1-dev
  sql.h=unixodbc-dev sqlite3.h=libsqlite3-dev yaml.h=libyaml-dev zlib.h=zlib1g-dev`);

/**
 * Says what is missing to compile a package. `debianPackage` has it; undefined: the name is not
 * known, and the sentence says "the Debian package with it".
 */
function missingToCompile(advice: SystemAdvice, what: string, debianPackage?: string): string {
  const remedy = advice(`the Debian package ${debianPackage ?? "with it"}`);
  return `A package has to be compiled here, and ${what} is missing: ${remedy} Or choose a version or a pythonVersion with a prebuilt package.`;
}

/** The first rule whose form matches the output explains it, so general rules come last. */
const rules: readonly Rule[] = [
  {
    form: /40[13] (?:Client )?Error|Credentials not correct|HTTP error 40[13]|status client error \(40[13]/i,
    sentence: () => {
      return `The package index refuses the credentials, or there are none. ${credentials}, and ${buildAgain}.`;
    },
  },
  {
    form: /(?:No matching distribution found for|Invalid requirement:?|not found).{0,200}\$\{([A-Z0-9_]+)\}/i,
    sentence: ([, name]) =>
      `The packages name \${${name}}, and nothing has set it: set ${name} as a secret, add it to secrets below [slipway.build], and ${buildAgain}.`,
  },
  {
    form: /repository located at (\S+) is not a trusted or secure host/i,
    sentence: ([, host]) => {
      const line = `--trusted-host ${host}`;
      return `pip does not use the package index at ${host}, whose address is not https: use https, or add the line ${line} to requirements.txt.`;
    },
  },
  {
    form: /SSLCertVerificationError|CERTIFICATE_VERIFY_FAILED|invalid peer certificate/i,
    sentence: () =>
      "The certificate of the package index is not trusted here: the operator can name a file of trusted authorities in the platform's environment, with PIP_CERT for pip and SSL_CERT_FILE for uv.",
  },
  {
    form: /(?:Failed to establish a new connection|Temporary failure in name resolution|Connection refused|ConnectTimeout|ReadTimeout|Max retries exceeded|error sending request|dns error|tcp connect error)/i,
    sentence: () =>
      `The package index cannot be reached from the build machine. If it is on a private network or on this machine, the operator has to allow its address (SLIPWAY_APP_NETWORK_ALLOW). When it can be reached, ${buildAgain}.`,
  },
  {
    // pip prints this when it asks other indexes than PyPI. pip treats an index that refuses access
    // like an index that lacks the package.
    form: /Looking in indexes: [^]*No matching distribution found for ([^\s(]+)/i,
    sentence: ([, name]) =>
      `There is no ${name} that works with this Python, or one of the package indexes (see above) refuses the credentials (pip does not say so): check its name and version ${where}, the pythonVersion, and the secrets in the index's address.`,
  },
  {
    form: /No matching distribution found for ([^\s(]+)/i,
    sentence: ([, name]) =>
      `There is no ${name} that works with this Python: check its name and version ${where}, or the pythonVersion.`,
  },
  {
    form: /Because (\S+) was not found in the package registry|no version(?:s)? of (\S+?)(?:==|>|<|~|!|\s)/i,
    sentence: ([, absent, unfit]) =>
      `There is no ${absent ?? unfit} that works with this Python: check its name and version ${where}, or the pythonVersion.`,
  },
  {
    form: /Hash mismatch for `?([^\s`]+)|([^\s]+) from .*:\s+Expected sha256/i,
    sentence: ([, uvName, pipName]) =>
      `The hash of ${uvName ?? pipName} is not the one that is written down beside it: somebody has changed the package or the list. Make the list anew if you trust the package.`,
  },
  {
    form: /incompatible with the project's Python requirement: `([^`]+)`/i,
    sentence: ([, requirement]) =>
      `pyproject.toml asks for Python ${requirement}, and the app has another: set python_version below [cerebrium.deployment] in its TOML file.`,
  },
  {
    form: /ResolutionImpossible|conflicting dependencies|your requirements are unsatisfiable/i,
    sentence: () => `The package versions conflict (see above): relax one of them ${where}.`,
  },
  {
    form: /fatal error: '?([\w./+-]+\.h(?:h|pp)?)'?(?:: No such file| file not found)/i,
    sentence: ([, header = ""], advice) =>
      missingToCompile(
        advice,
        `the system header ${header}`,
        packagesOf.get(header) ?? packagesOf.get(header.replace(/[^/]*$/, "")),
      ),
  },
  {
    form: /pg_config executable not found/i,
    sentence: (_, advice) => missingToCompile(advice, "pg_config", "libpq-dev"),
  },
  {
    form: /(?:cannot find -l|library not found for -l)([\w+.-]+)/,
    sentence: ([, name = ""], advice) => missingToCompile(advice, `the system library lib${name}`),
  },
  {
    // mysqlclient says this also when pkg-config itself is missing.
    form: /Can not find valid pkg-config name/i,
    sentence: (_, advice) => {
      const remedy = advice(
        "the Debian packages default-libmysqlclient-dev, pkg-config and build-essential",
      );
      return `A package has to be compiled here, and the client library of MySQL is missing: ${remedy}`;
    },
  },
  {
    form: /can't find Rust compiler/i,
    sentence: (_, advice) => missingToCompile(advice, "rustc", "rustc"),
  },
  {
    form: /CMake must be installed/i,
    sentence: (_, advice) => missingToCompile(advice, "cmake", "cmake"),
  },
  {
    form: /command '(?:[^']*\/)?([\w+.-]+)' failed: No such file|unable to execute '([\w+.-]+)'|No such file or directory: '(?:[^'\n]*\/)?((?:[\w.-]+-)?(?:gcc|g\+\+|cc|c\+\+|clang|make)(?:-[\d.]+)?)'|((?:gcc|g\+\+|cc|c\+\+|clang|make)): (?:command )?not found|Unknown compiler|you need a C compiler/i,
    sentence: ([, ...names], advice) =>
      missingToCompile(
        advice,
        names.find((name) => name !== undefined) ?? "a compiler",
        "build-essential",
      ),
  },
  {
    form: /(?:Failed to build|Failed building wheel for|Failed to build `?)\s*([A-Za-z0-9._-]+)/i,
    sentence: ([, name]) =>
      `${name} has no prebuilt package for this Python and could not be compiled here: the reason is in the output above. Choose a version that has one ${where}, or another pythonVersion.`,
  },
  {
    form: /Invalid requirement:? ?([^\n]{0,100})/i,
    sentence: ([, line]) =>
      `pip does not understand the requirement ${line?.trim()}: fix it ${where}.`,
  },
  {
    form: /No space left on device/i,
    sentence: () => "The disk of the build machine is full; the operator has to free up space.",
  },
  {
    form: /does not exist|Cannot find command 'git'|No such file/i,
    sentence: () =>
      `A requirement names something that does not exist (see above): fix it ${where}.`,
  },
];

/**
 * Returns one or two sentences; `end` says how the installer exited, `advice` who installs system
 * packages.
 */
export function explainInstallFailure(
  output: string,
  end: string,
  advice: SystemAdvice = systemPackage,
): string {
  for (const { form, sentence } of rules) {
    const match = form.exec(output);
    if (match !== null) return sentence(match, advice);
  }
  const line = failingLine(output).slice(0, lineCharactersMax);
  // The line may end with a period of its own.
  const quote = line === "" ? "" : ` It says: ${line}.`.replace(/\.\.$/, ".");
  return `The packages could not be installed: the installer ${end}.${quote} See its output above, and check the packages ${where}.`;
}
