// Which variables of other programs the platform takes from its own environment, for git, pip and
// builds. The command line writes those about the network into the settings of a service.

const aboutMachine = [/^(PATH|LANG|LC_[A-Z]+|TZ|TMPDIR)$/, /^PYENV_ROOT$/];

const aboutNetwork = [
  /^(HTTPS?|NO|ALL)_PROXY$/i,
  /^(PIP|UV)_[A-Z0-9_]+$/,
  /^(SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|GIT_SSL_CAINFO)$/,
];

/** Whether the variable names a location of tools, a proxy, certificates or a package index. */
export function isToolVariable(name: string): boolean {
  return isNetworkVariable(name) || aboutMachine.some((form) => form.test(name));
}

/** Whether the variable names a proxy, certificates or a package index. */
export function isNetworkVariable(name: string): boolean {
  return aboutNetwork.some((form) => form.test(name));
}
