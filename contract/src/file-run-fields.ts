// The parameters of a request that runs a file once; the published clients send all of them, some
// of them empty.
import { appFields } from "./app-fields.ts";
import type { Field } from "./field.ts";

const given = { kind: "text", toml: null, default: null } as const;
/** Clients print whole numbers as 2.0. */
const number = { kind: "number", toml: null, min: 0, max: 10_000, default: null } as const;

export const fileRunFields = {
  filename: {
    ...given,
    form: /^(?!\/)(?!(?:.*\/)?\.\.(?:\/|$))[^\\\x00-\x1f\x7f]{1,500}$/,
    allowed: 'a path inside the tar: relative, with "/", without "..", at most 500 characters',
    about: "The Python file to run; required.",
  },
  appName: {
    ...given,
    form: /^[\x20-\x7e]{1,300}$/,
    allowed: "a name",
    about: "For clients: the app in the path counts.",
  },
  region: {
    ...given,
    form: appFields.region.form,
    allowed: appFields.region.allowed,
    about: "As the field region of an app.",
  },
  functionName: {
    ...given,
    form: /^[A-Za-z_][A-Za-z0-9_]{0,199}$/,
    allowed: "the name of a function: at most 200 letters, digits and underscores",
    about: "The function of the file to call; without it the file runs as a script.",
  },
  imageDigest: {
    ...given,
    form: /^[A-Za-z0-9_-]{1,8000}$/,
    allowed: "a digest that …/base-image has returned",
    about: "What the file needs; without it nothing is installed.",
  },
  computeType: {
    ...given,
    form: /^[\x21-\x7e]{1,100}$/,
    allowed: "a compute type",
    about: "As the field compute of an app.",
  },
  gpuCount: { ...number, about: "As the field gpuCount of an app." },
  cpu: { ...number, about: "CPU cores, as the field cpu of an app." },
  memoryGb: { ...number, about: "Memory in GB, as the field memory of an app." },
} as const satisfies Record<string, Field>;
