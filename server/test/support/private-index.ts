// A package index that wants a user and a password, and has two versions of one package.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { zipOf } from "./raw-zip.ts";

/** The package's file for a version; its module says the version. */
function greeterWheel(version: string): Buffer {
  return zipOf({
    "greeter.py": `version = "${version}"\n`,
    [`greeter-${version}.dist-info/METADATA`]: `Metadata-Version: 2.1\nName: greeter\nVersion: ${version}\n`,
    [`greeter-${version}.dist-info/WHEEL`]:
      "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    [`greeter-${version}.dist-info/RECORD`]: "",
  });
}

/** Serves `greeter` 1.0 and 2.0 to whoever sends these credentials; returns its port. */
export async function startPrivateIndex(t: TestContext, credentials: string): Promise<number> {
  const server = createServer((request, response) => {
    const wanted = `Basic ${Buffer.from(credentials).toString("base64")}`;
    // Caches of clients may keep what the answer depends on.
    response.setHeader("vary", "authorization").setHeader("cache-control", "max-age=3600");
    if (request.headers.authorization !== wanted) {
      response.writeHead(401, { "www-authenticate": "Basic" }).end();
      return;
    }
    const [, version] =
      /^\/files\/greeter-(\d\.\d)-py3-none-any\.whl$/.exec(request.url ?? "") ?? [];
    if (version !== undefined) return void response.end(greeterWheel(version));
    if (request.url !== "/simple/greeter/") return void response.writeHead(404).end();
    const links = ["1.0", "2.0"].map(
      (one) =>
        `<a href="/files/greeter-${one}-py3-none-any.whl">greeter-${one}-py3-none-any.whl</a>`,
    );
    response.setHeader("content-type", "text/html").end(links.join("\n"));
  }).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}
