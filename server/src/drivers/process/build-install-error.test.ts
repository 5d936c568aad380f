// What pip and uv say when they fail, in words for the app's owner.
import assert from "node:assert/strict";
import { test } from "node:test";
import { toApt } from "#drivers/error-advice.ts";
import { explainInstallFailure } from "./build-install-error.ts";

const cases: [string, RegExp][] = [
  [
    "ERROR: Could not find a version that satisfies the requirement nump==1 (from versions: none)\nERROR: No matching distribution found for nump==1",
    /^There is no nump==1 that works with this Python: check/,
  ],
  [
    "  × No solution found when resolving dependencies:\n  ╰─▶ Because nump was not found in the package registry and you require nump, we can conclude",
    /^There is no nump that works with/,
  ],
  [
    "WARNING: Retrying after connection broken by 'NewConnectionError(': Failed to establish a new connection: [Errno 111] Connection refused')': /simple/six/\nERROR: No matching distribution found for six",
    /^The package index cannot be reached .* private network .*SLIPWAY_APP_NETWORK_ALLOW/,
  ],
  [
    "Looking in indexes: https://pypi.org/simple, http://a:****@10.0.0.5/simple\nWARNING: The repository located at 10.0.0.5 is not a trusted or secure host and is being ignored.\nERROR: No matching distribution found for x==1",
    /^pip does not use the package index at 10\.0\.0\.5, .* not https: .* --trusted-host 10\.0\.0\.5 to/,
  ],
  [
    "Looking in indexes: https://pypi.org/simple, https://a:****@i.example/simple\nERROR: Could not find a version that satisfies the requirement x==1 (from versions: 0.1)\nERROR: No matching distribution found for x==1",
    /^There is no x==1 that works with this Python, or one of the package indexes .* refuses the credentials/,
  ],
  [
    "WARNING: Retrying after connection broken by 'SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate'))': /simple/x/\nCould not fetch URL https://i.example/simple/x/: Max retries exceeded\nERROR: No matching distribution found for x",
    /^The certificate of the package index is not trusted here: .*PIP_CERT/,
  ],
  [
    "error: Request failed after 5 retries\n  cause: error sending request for url (https://i.example/simple/x/)\n  cause: client error (Connect)\n  cause: invalid peer certificate: UnknownIssuer",
    /^The certificate of the package index is not trusted here: .*SSL_CERT_FILE/,
  ],
  [
    "  error: subprocess-exited-with-error\n  × Getting requirements to build wheel did not run successfully.\n  │ exit code: 1\n  ╰─> [1 lines of output]\n      the license file is missing\n      [end of output]\nerror: subprocess-exited-with-error\n× Getting requirements to build wheel did not run successfully.\n│ exit code: 1\n╰─> See above for output.\nnote: This error is from a subprocess.",
    /It says: the license file is missing\. See/,
  ],
  [
    "ERROR: Cannot install a and b because these package versions have conflicting dependencies.\nERROR: ResolutionImpossible",
    /versions conflict/,
  ],
  [
    "ERROR: Failed building wheel for llvmlite",
    /^llvmlite has no prebuilt package.* the output above/,
  ],
  [
    "src/_portaudiomodule.c:29:10: fatal error: portaudio.h: No such file or directory\ncompilation terminated.\nerror: command '/usr/bin/gcc' failed with exit code 1\nERROR: Failed building wheel for pyaudio",
    /system header portaudio\.h is missing: ask the operator to install the Debian package portaudio19-dev/,
  ],
  [
    "x.c:1:10: fatal error: 'openssl/ssl.h' file not found\nerror: command 'clang' failed with exit code 1",
    /openssl\/ssl\.h is missing: .* libssl-dev/,
  ],
  [
    "fatal error: rare/thing.hpp: No such file or directory",
    /rare\/thing\.hpp is missing: .* package with it/,
  ],
  [
    "Error: pg_config executable not found.\nERROR: Failed to build psycopg2",
    /pg_config is missing: .* libpq-dev/,
  ],
  [
    "/usr/bin/ld: cannot find -lfoo: No such file or directory\nFailed building wheel for x",
    /system library libfoo is/,
  ],
  [
    "error: command 'gcc' failed: No such file or directory\nFailed building wheel for x",
    /gcc is .*build-essential/,
  ],
  [
    "      error: [Errno 2] No such file or directory: 'x86_64-linux-gnu-gcc'\n      [end of output]\n  ERROR: Failed building wheel for psutil",
    /x86_64-linux-gnu-gcc is missing: .* Debian package build-essential/,
  ],
  [
    "error: [Errno 2] No such file or directory: 'x86_64-linux-gnu-g++'\nFailed to build x",
    /g\+\+ is .*build-essential/,
  ],
  [
    "sh: 1: make: not found\n  ERROR: Failed building wheel for x",
    /make is missing: .*build-essential/,
  ],
  [
    '    raise Exception("you need a C compiler to build uWSGI")\nException: you need a C compiler to build uWSGI\nerror: legacy-install-failure',
    /a compiler is missing: .* build-essential/,
  ],
  [
    "Exception: Can not find valid pkg-config name.\nSpecify MYSQLCLIENT_CFLAGS and MYSQLCLIENT_LDFLAGS env vars manually",
    /MySQL is missing: .* default-libmysqlclient-dev, pkg-config and build-essential/,
  ],
  [
    "Exception: no such thing\nerror: legacy-install-failure\n\n× Encountered error while trying to install package.",
    /It says: Exception: no such thing\. See/,
  ],
  [
    "error: can't find Rust compiler\nFailed building wheel for x",
    /rustc is missing: .* package rustc/,
  ],
  ["OSError: [Errno 28] No space left on device", /disk .* is full/],
  [
    "nothing known",
    /^The packages could not be installed: the installer ended with exit code 2\. It says: nothing known\. See/,
  ],
  [
    "WARNING: 401 Error, Credentials not correct for https://i.example/simple/x/\nERROR: No matching distribution found for x",
    /^The package index refuses the credentials, or there are none\. Set them as secrets/,
  ],
  [
    "  ╰─▶ HTTP status client error (403 Forbidden) for url (https://i.example/simple/x/)",
    /^The package index refuses/,
  ],
  [
    "ERROR: No matching distribution found for idna==${IDNA_VERSION}",
    /^The packages name \$\{IDNA_VERSION\}, and nothing has set it: set IDNA_VERSION as a secret/,
  ],
];

test("the cause is named, with what to do", () => {
  for (const [output, expected] of cases)
    assert.match(explainInstallFailure(output, "ended with exit code 2"), expected);
});

test("with a driver that builds images, the compiler goes below the app's apt packages", () => {
  const output =
    "error: [Errno 2] No such file or directory: 'x86_64-linux-gnu-gcc'\nERROR: Failed building wheel for x";
  assert.equal(
    explainInstallFailure(output, "ended", toApt),
    "A package has to be compiled here, and x86_64-linux-gnu-gcc is missing: add the Debian package build-essential below [cerebrium.dependencies.apt] in the app's TOML file. Or choose a version or a pythonVersion with a prebuilt package.",
  );
});

test("a compiler that ran is not asked for", () => {
  const ran = cases.filter(([output]) => output.includes("failed with exit code 1"));
  assert.ok(ran.length > 1);
  for (const [output] of ran)
    assert.doesNotMatch(explainInstallFailure(output, "ended"), /compiler|build-essential/);
});
