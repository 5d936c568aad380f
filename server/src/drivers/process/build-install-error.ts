// Explains a failure of pip or uv in a sentence that says what to do next. Pure.

type Rule = { readonly form: RegExp; readonly sentence: (match: RegExpExecArray) => string };

const where = "under dependencies.pip or in requirements.txt";

const rules: readonly Rule[] = [
  {
    form: /(?:Failed to establish a new connection|Temporary failure in name resolution|Connection refused|ConnectTimeout|ReadTimeout|Max retries exceeded|error sending request|dns error|tcp connect error)/i,
    sentence: () => "The package index cannot be reached from the build machine. Try again with a rebuild.",
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
    form: /ResolutionImpossible|conflicting dependencies|your requirements are unsatisfiable/i,
    sentence: () => `The package versions conflict (see above): relax one of them ${where}.`,
  },
  {
    form: /(?:Failed to build|Failed building wheel for|Failed to build `?)\s*([A-Za-z0-9._-]+)/i,
    sentence: ([, name]) =>
      `${name} has no prebuilt package for this Python and could not be compiled here (see above): choose a version that has one, another pythonVersion, or ask the operator to install a compiler.`,
  },
  {
    form: /Invalid requirement:? ?([^\n]{0,100})/i,
    sentence: ([, line]) => `pip does not understand the requirement ${line?.trim()}: fix it ${where}.`,
  },
  {
    form: /No space left on device/i,
    sentence: () => "The disk of the build machine is full; the operator has to free up space.",
  },
  {
    form: /does not exist|Cannot find command 'git'|No such file/i,
    sentence: () => `A requirement names something that does not exist (see above): fix it ${where}.`,
  },
];

/** Returns one or two sentences; `end` says how the installer exited. */
export function explainInstallFailure(output: string, end: string): string {
  for (const { form, sentence } of rules) {
    const match = form.exec(output);
    if (match !== null) return sentence(match);
  }
  return `The packages could not be installed: the installer ${end} (see its output above). Check the packages ${where}.`;
}
