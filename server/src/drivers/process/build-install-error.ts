// Turns what pip or uv says when it fails into a sentence with what to do next. Pure.

type Rule = { readonly form: RegExp; readonly sentence: (match: RegExpExecArray) => string };

const where = "under dependencies.pip or in requirements.txt";

const rules: readonly Rule[] = [
  {
    form: /(?:Failed to establish a new connection|Temporary failure in name resolution|Connection refused|ConnectTimeout|ReadTimeout|Max retries exceeded|error sending request|dns error|tcp connect error)/i,
    sentence: () => "The package index cannot be reached from the machine that builds. Try again with a rebuild.",
  },
  {
    form: /No matching distribution found for ([^\s(]+)/i,
    sentence: ([, name]) =>
      `There is no ${name} that fits this Python: check its name and version ${where}, or the pythonVersion.`,
  },
  {
    form: /Because (\S+) was not found in the package registry|no version(?:s)? of (\S+?)(?:==|>|<|~|!|\s)/i,
    sentence: ([, absent, unfit]) =>
      `There is no ${absent ?? unfit} that fits this Python: check its name and version ${where}, or the pythonVersion.`,
  },
  {
    form: /ResolutionImpossible|conflicting dependencies|your requirements are unsatisfiable/i,
    sentence: () => `The packages' versions contradict each other (see above): loosen one of them ${where}.`,
  },
  {
    form: /(?:Failed to build|Failed building wheel for|Failed to build `?)\s*([A-Za-z0-9._-]+)/i,
    sentence: ([, name]) =>
      `${name} has no ready-made package for this Python and could not be compiled here (see above): choose a version that has one, another pythonVersion, or let the operator install a compiler.`,
  },
  {
    form: /Invalid requirement:? ?([^\n]{0,100})/i,
    sentence: ([, line]) => `pip does not understand the requirement ${line?.trim()}: mend it ${where}.`,
  },
  {
    form: /No space left on device/i,
    sentence: () => "The disk of the machine that builds is full; the operator has to make room.",
  },
  {
    form: /does not exist|Cannot find command 'git'|No such file/i,
    sentence: () => `A requirement names something that is not there (see above): mend it ${where}.`,
  },
];

/** One sentence or two; `end` says how the installer ended. */
export function explainInstallFailure(output: string, end: string): string {
  for (const { form, sentence } of rules) {
    const match = form.exec(output);
    if (match !== null) return sentence(match);
  }
  return `The packages could not be installed: the installer ${end} (its output stands above). Check the packages ${where}.`;
}
