// A platform that gets its certificates by itself, from pebble.
import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, type DetailedPeerCertificate } from "node:tls";
import { freePorts } from "./support/free-ports.ts";
import { noPebble, startPebble } from "./support/pebble.ts";
import { startPlatform } from "./support/platform-process.ts";
import { until } from "./support/until.ts";

const name = "slipway.example.org";

/** The certificate that a client gets for the name; null: the handshake fails. */
function certificateAt(port: string, servername: string, ca: string) {
  return new Promise<DetailedPeerCertificate | null>((resolve) => {
    const socket = connect({ host: "127.0.0.1", port: Number(port), servername, ca }, () => {
      resolve(socket.getPeerCertificate(true));
      socket.destroy();
    });
    socket.on("error", () => resolve(null));
  });
}

for (const challenge of ["http-01", "tls-alpn-01"]) {
  test(
    `a platform gets a certificate by ${challenge}, and has it after a restart`,
    { skip: noPebble },
    async (t) => {
      const [httpPort = "", tlsPort = ""] = await freePorts(2);
      const pebble = await startPebble(t, { httpPort, tlsPort });
      const platform = await startPlatform(t, {
        ...pebble.settings(`https://${name}:${tlsPort}`),
        SLIPWAY_PORT: httpPort,
        SLIPWAY_TLS_PORT: tlsPort,
        SLIPWAY_ACME_CHALLENGE: challenge,
        SLIPWAY_REDIRECT_TO_HTTPS: "true",
      });
      const root = await pebble.root();
      await until("the certificate is in use", async () => {
        assert.doesNotMatch(platform.output(), /could not be issued/);
        return (await certificateAt(tlsPort, name, root)) !== null;
      });
      const first = await certificateAt(tlsPort, name, root);
      assert.equal(first?.subjectaltname, `DNS:${name}`);
      const text = `http://127.0.0.1:${httpPort}/.well-known/acme-challenge/unknown`;
      assert.equal((await fetch(text)).status, 404);
      await platform.end("SIGTERM");
      await platform.restart();
      const again = await certificateAt(tlsPort, name, root);
      assert.equal(again?.serialNumber, first?.serialNumber);
      assert.equal(platform.output().split("a TLS certificate was issued").length, 2);
    },
  );
}
