// What the image contains, in the form of CycloneDX: the packages of Debian as the image says
// itself, and those of npm as the lock files do.
import { lockedPackages, programPackages, type Locked, type Platform } from "./context.ts";
import { fileOf } from "./engine.ts";

type Component = {
  readonly type: "library" | "application";
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly licenses?: readonly { readonly expression: string }[];
  readonly hashes?: readonly { readonly alg: "SHA-512"; readonly content: string }[];
};

export type BillOfMaterials = {
  readonly bomFormat: "CycloneDX";
  readonly specVersion: "1.5";
  readonly version: 1;
  readonly metadata: {
    readonly component: {
      readonly type: "container";
      readonly name: string;
      readonly version: string;
    };
  };
  readonly components: readonly Component[];
};

type Asked = { readonly image: string; readonly version: string; readonly platform: Platform };

/** `image`: its name in the engine. */
export function billOfMaterials({ image, version, platform }: Asked): BillOfMaterials {
  const status = fileOf(image, platform, "/var/lib/dpkg/status");
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: { component: { type: "container", name: "slipway", version } },
    components: [...debianComponents(status), ...npmComponents(platform)],
  };
}

/** The installed packages in the text of a file `status` of dpkg. */
function debianComponents(status: string): readonly Component[] {
  return status.split(/\n\n+/).flatMap((paragraph) => {
    const field = (name: string) => new RegExp(`^${name}: (.+)$`, "m").exec(paragraph)?.[1];
    const name = field("Package");
    const version = field("Version");
    if (name === undefined || version === undefined) return [];
    const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${field("Architecture")}`;
    return [{ type: "library" as const, name, version, purl }];
  });
}

/** The packages that the platform and its pages are bundled from, and those with programs. */
function npmComponents(platform: Platform): readonly Component[] {
  const { node, database } = programPackages(platform);
  const found = ["package-lock.json", "dashboard/package-lock.json"].flatMap((file) =>
    Object.entries(lockedPackages(file)).flatMap(([path, locked]) => {
      const name = path.split("node_modules/").at(-1) ?? "";
      const isOther = locked.optional === true && name !== node && name !== database;
      if (!path.includes("node_modules/") || locked.link === true || locked.dev === true || isOther)
        return name === node ? [npmComponent(name, locked)] : [];
      return [npmComponent(name, locked)];
    }),
  );
  return [...new Map(found.map((one) => [one.purl, one])).values()];
}

function npmComponent(name: string, { version, license, integrity }: Locked): Component {
  const hash = integrity?.replace(/^sha512-/, "");
  return {
    type: "library",
    name,
    version,
    purl: `pkg:npm/${name.replace("@", "%40")}@${version}`,
    ...(license === undefined ? {} : { licenses: [{ expression: license }] }),
    ...(hash === undefined
      ? {}
      : { hashes: [{ alg: "SHA-512", content: Buffer.from(hash, "base64").toString("hex") }] }),
  };
}
