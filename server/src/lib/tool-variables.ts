// Says which variables of other programs the platform takes from its own environment and hands on
// to git, pip and builds. When the command line installs the platform as a service of the system,
// it writes the variables about the network into the settings of that service.

/** Where tools and temporary files are, the language, and the time zone. */
const aboutMachine = [/^(PATH|LANG|LC_[A-Z]+|TZ|TMPDIR)$/, /^PYENV_ROOT$/];

/** Proxies, the settings of pip and uv (such as a package index), and certificates. */
const aboutNetwork = [
  /^(HTTPS?|NO|ALL)_PROXY$/i,
  /^(PIP|UV)_[A-Z0-9_]+$/,
  /^(SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|GIT_SSL_CAINFO)$/,
];

/** Whether the variable is about the machine or about the network, as listed above. */
export function isToolVariable(name: string): boolean {
  return isNetworkVariable(name) || aboutMachine.some((form) => form.test(name));
}

/** Whether the variable is about the network: a proxy, certificates, or a setting of pip or uv. */
export function isNetworkVariable(name: string): boolean {
  return aboutNetwork.some((form) => form.test(name));
}
