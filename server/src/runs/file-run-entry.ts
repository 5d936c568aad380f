// The program that runs a file once: `main.py` of the app that holds the file and those beside it. It has one function, whose call
// is the run; what the file prints are the lines of that run.

/** The folder that the files are in. */
export const fileRunFolder = "files";

/** What the run calls. */
export const fileRunPath = "/run_file";

/** With these arguments: the file, its function (null: the file is a script), and the fields of the data. */
export type FileRunArguments = {
  readonly filename: string;
  readonly functionName: string | null;
  /** A JSON object as text. */
  readonly data: string;
};

/** The body of the call. */
export function fileRunBody({ data, ...named }: FileRunArguments): Buffer {
  // Not parsed and written again, which would change numbers that JavaScript cannot hold.
  return Buffer.from(`${JSON.stringify(named).slice(0, -1)},"data":${data}}`);
}

/** The text of `main.py`; Python 3.8 and newer. */
export const fileRunEntry = `import importlib.util
import inspect
import os
import runpy
import sys

FILES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "${fileRunFolder}")


def run_file(filename, functionName, data, run_id):
    path = os.path.join(FILES, filename)
    os.chdir(FILES)
    sys.path[:0] = [os.path.dirname(path), FILES]
    sys.argv = [path]
    if functionName is None:
        _run_script(path)
        return None
    function = getattr(_module(path), functionName, None)
    if not callable(function):
        raise AttributeError("%s has no function %s" % (filename, functionName))
    given = dict(data)
    if "run_id" in inspect.signature(function).parameters:
        given["run_id"] = run_id
    return function(**given)


def _run_script(path):
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise RuntimeError("the file ended with sys.exit(%r)" % (end.code,)) from None


def _module(path):
    stem = os.path.splitext(os.path.basename(path))[0]
    name = stem if stem.isidentifier() and stem not in sys.modules else "file_that_runs"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise ImportError("%s is not a Python file" % os.path.basename(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
`;
