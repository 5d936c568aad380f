// Package tables and requirements files become lines that pip, apt and conda take.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  aptPackages,
  condaPackages,
  fileRequirements,
  listedPackages,
  pipRequirements,
  requirementName,
} from "./requirements.ts";

function lines(packages: Record<string, string>): string[] | string {
  const made = pipRequirements(packages);
  return made.ok ? made.value : made.reason;
}

test("versions become specifiers: bare, exact, ranges, compatible, conditions", () => {
  assert.deepEqual(
    lines({
      b: "latest",
      a: "1.2.3",
      c: "*",
      d: "",
      e: "~=2.0",
      f: ">=1,<2",
      g: "==1.0",
      h: "=1.0",
      i: "!=3",
      j: "LATEST",
      "ruamel.yaml": "0.18",
      "uvicorn[standard]": "0.30.*",
      k: '>=1; python_version < "3.12"',
      l: "2.1.0+cu121",
    }),
    [
      "a==1.2.3",
      "b",
      "c",
      "d",
      "e~=2.0",
      "f>=1,<2",
      "g==1.0",
      "h==1.0",
      "i!=3",
      "j",
      'k>=1; python_version < "3.12"',
      "l==2.1.0+cu121",
      "ruamel.yaml==0.18",
      "uvicorn[standard]==0.30.*",
    ],
  );
});

test("addresses keep their case, and their version is what stands behind the @", () => {
  assert.deepEqual(lines({ "git+https://github.com/Foo/Bar.git": "latest" }), [
    "git+https://github.com/Foo/Bar.git",
  ]);
  assert.deepEqual(lines({ "git+https://github.com/Foo/Bar.git": "v1.2" }), [
    "git+https://github.com/Foo/Bar.git@v1.2",
  ]);
  assert.deepEqual(lines({ "part @ https://example.com/part-1.0-py3-none-any.whl": "" }), [
    "part @ https://example.com/part-1.0-py3-none-any.whl",
  ]);
});

test("what pip would not understand is refused with the entry and what is allowed", () => {
  for (const packages of [
    { numpy: "^1.2" },
    { numpy: "1 2" },
    { "--index-url=http://x": "latest" },
    { "-e .": "" },
    { "a b": "1" },
    { "": "1" },
    { numpy: ">=" },
  ] as Record<string, string>[]) {
    assert.match(
      String(lines(packages)),
      /^dependencies\.pip has ".*" = ".*", but pip needs /,
      JSON.stringify(packages),
    );
  }
});

test("whatever the table holds, no line is an option and none holds a second line", () => {
  const text = fc.string({
    unit: fc.constantFrom(...Array.from('ab1-.=<>~!@;# []\n"\\:/+')),
    maxLength: 12,
  });
  fc.assert(
    fc.property(fc.dictionary(text, text, { maxKeys: 3 }), (packages) => {
      const made = pipRequirements(packages);
      if (!made.ok) return;
      for (const line of made.value) assert.ok(!line.startsWith("-") && !line.includes("\n"), line);
    }),
  );
});

test("apt takes one equals sign, conda two", () => {
  const packages = { ffmpeg: "latest", curl: "7.88.1-10", git: "=1:2.39", libgl1: "" };
  assert.deepEqual(aptPackages(packages), ["curl=7.88.1-10", "ffmpeg", "git=1:2.39", "libgl1"]);
  assert.deepEqual(condaPackages({ cuda: ">=12", x: "1" }), ["cuda>=12", "x==1"]);
});

test("lists leave out comments and empty lines, and keep addresses with a fragment", () => {
  assert.deepEqual(listedPackages("# top\na==1  # why\r\n\n  b\ngit+https://x/y#egg=z\n"), [
    "a==1",
    "b",
    "git+https://x/y#egg=z",
  ]);
});

test("a requirements file says all: files behind -r are put in, paths behind -c lead from the app's folder", () => {
  const files: Record<string, string> = {
    "deps/all.txt":
      "-r base.txt\n--requirement=../gpu.txt\n-c limits.txt\n-r https://example.com/x.txt\ntorch \\\n  ==2.1\n",
    "deps/base.txt": "numpy\n-r all.txt\n",
    "gpu.txt": "cuda-python\n",
  };
  const made = fileRequirements("./deps/all.txt", (path) => files[path] ?? null);
  assert.deepEqual(made, {
    ok: true,
    value: [
      "numpy",
      "cuda-python",
      "-c deps/limits.txt",
      "-r https://example.com/x.txt",
      "torch   ==2.1",
    ],
  });
});

test("a file that is not there, or that would lie outside, is named", () => {
  const reason = (file: string, text?: string): string => {
    const made = fileRequirements(file, (path) => (path === "r.txt" ? (text ?? null) : null));
    return made.ok ? "" : made.reason;
  };
  assert.match(
    reason("r.txt"),
    /^The file r\.txt, which should list the packages, is not in the app's folder/,
  );
  assert.match(
    reason("r.txt", "-r ../../etc/passwd"),
    /^r\.txt names \.\.\/\.\.\/etc\/passwd with -r/,
  );
  assert.match(reason("r.txt", "-c /etc/passwd"), /with -c, which is not in the app's folder/);
});

test("a list may consist of 50 files, and not of more", () => {
  const listOf = (files: number) =>
    fileRequirements("0", (path) =>
      Number(path) < files - 1 ? `-r ${Number(path) + 1}` : "torch",
    );
  assert.deepEqual(listOf(50), { ok: true, value: ["torch"] });
  assert.deepEqual(listOf(51), {
    ok: false,
    reason: "0 and the files that it names with -r are more than 50 files.",
  });
});

test("names are compared as pip does", () => {
  assert.equal(requirementName("Uvicorn[standard]>=0.3"), "uvicorn");
  assert.equal(requirementName("Ruamel_Yaml"), "ruamel-yaml");
  assert.equal(requirementName("x @ https://example.com/x.whl"), "x");
  assert.equal(requirementName("-r x.txt"), null);
});
