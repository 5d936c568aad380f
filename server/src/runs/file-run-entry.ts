// The program of a file run: `main.py` of the app that holds the file and the files beside it. It
// has one function, whose call is the run; the output of the file is the log of that run.

/** The folder of the files, beside `main.py`. */
export const fileRunFolder = "files";

/** The path that the run calls: it names the function of `main.py`. */
export const fileRunPath = "/run_file";

/**
 * The arguments of that call: the file, its function (null: the file is a script), and its data.
 */
export type FileRunArguments = {
  readonly filename: string;
  readonly functionName: string | null;
  /** A JSON object as text. */
  readonly data: string;
};

/** The body of the call. */
export function fileRunBody({ data, ...fileAndFunction }: FileRunArguments): Buffer {
  // The data takes the place of the final brace, as text: parsing it would change numbers that
  // JavaScript cannot hold.
  return Buffer.from(`${JSON.stringify(fileAndFunction).slice(0, -1)},"data":${data}}`);
}

/**
 * The text of `main.py`, for Python 3.8 and newer. If a script has no `if __name__ == …`, published
 * clients append a block that calls a function of the script. The block of older clients wants the
 * function's name as an argument, which is empty if there is none. The block of newer clients looks
 * for a function with a usual name, and takes the data from an environment variable. Without data,
 * a function that needs arguments cannot be called: then only the script runs.
 */
export const fileRunEntry = `import ast
import importlib.util
import inspect
import json
import os
import sys
import types

FILES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "${fileRunFolder}")
APPENDED = "\\n# Auto-injected by Cerebrium CLI"
APPENDED_BY_OLDER = "func_name = sys.argv[1]"
USUAL_NAMES = ("main", "run", "handler", "process", "execute", "predict")


def run_file(filename, functionName, data, run_id):
    path = os.path.join(FILES, filename)
    os.chdir(FILES)
    sys.path[:0] = [os.path.dirname(path), FILES]
    sys.argv = [path]
    if functionName is None:
        _run_script(path, data)
        return None
    function = getattr(_module(path), functionName, None)
    if not callable(function):
        raise AttributeError("%s has no function %s" % (filename, functionName))
    given = dict(data)
    if "run_id" in inspect.signature(function).parameters:
        given["run_id"] = run_id
    return function(**given)


def _run_script(path, data):
    with open(path, "rb") as file:
        text = importlib.util.decode_source(file.read())
    script, appended, _ = text.partition(APPENDED)
    if appended and not data and _needs_arguments(script, path):
        print("The file ran as a script: its function needs data, and none was sent.")
        text = script
    if APPENDED_BY_OLDER in text:
        sys.argv.append("")
    if data:
        os.environ["CEREBRIUM_INPUT_DATA"] = json.dumps(data)
    module = types.ModuleType("__main__")
    module.__file__ = path
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        exec(compile(text, path, "exec"), module.__dict__)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise RuntimeError("the file ended with sys.exit(%r)" % (end.code,)) from None
    finally:
        sys.modules["__main__"] = before


def _needs_arguments(script, path):
    functions = {}
    for node in ast.parse(script, path).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions[node.name] = node.args
    names = [name for name in USUAL_NAMES if name in functions]
    if not names:
        return False
    given = functions[names[0]]
    positional = len(given.posonlyargs) + len(given.args)
    return positional > len(given.defaults) or None in given.kw_defaults


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
