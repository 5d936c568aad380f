// The app that `load-of-calls.ts` calls.
import assert from "node:assert/strict";
import { deploy } from "./examples.ts";
import type { startGitServer } from "./git-server.ts";
import type { CalledPlatform } from "./platform-process.ts";

/**
 * A web server of the standard library: an answer, a stream of ten parts, an echoing WebSocket;
 * each tells its version.
 */
export const loadedServer = (version: number): string => `
import asyncio, base64, hashlib

VERSION = "v${version}"

async def echo(reader, writer, key):
    proof = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
    writer.write(("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
                  f"Sec-WebSocket-Accept: {proof}\\r\\n\\r\\n").encode())
    while True:
        first, second = await reader.readexactly(2)
        mask = await reader.readexactly(4)
        await reader.readexactly(second & 127)
        if first & 15 == 8:
            writer.write(b"\\x88\\x00")
            return
        writer.write(b"\\x81" + bytes([len(VERSION)]) + VERSION.encode())

async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\\r\\n\\r\\n")).decode("latin1")
            fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head.split("\\r\\n")[1:])}
            await reader.readexactly(int(fields.get("content-length", "0")))
            path = head.split(" ")[1]
            if path.startswith("/socket"):
                await echo(reader, writer, fields["sec-websocket-key"])
                return
            if path.startswith("/stream"):
                writer.write(b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
                for _ in range(10):
                    writer.write(f"{len(VERSION) + 1:x}\\r\\n{VERSION} \\r\\n".encode())
                    await writer.drain()
                    await asyncio.sleep(0.1)
                writer.write(b"0\\r\\n\\r\\n")
            else:
                writer.write(f"HTTP/1.1 200 OK\\r\\nContent-Length: {len(VERSION)}\\r\\n\\r\\n{VERSION}".encode())
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()

async def main():
    async with await asyncio.start_server(serve, "0.0.0.0", 8000) as listener:
        await listener.serve_forever()

asyncio.run(main())
`;

/** Deploys the first version as the app `loaded`, which anyone may call. */
export async function deployLoaded(
  platform: CalledPlatform,
  git: Awaited<ReturnType<typeof startGitServer>>,
  scaling: { readonly maxReplicaCount: number; readonly cooldownPeriodSeconds: number },
): Promise<void> {
  await git.createRepo("team", "loaded", {
    "server.py": loadedServer(1),
    "requirements.txt": "",
  });
  const { status, log } = await deploy(platform, {
    name: "loaded",
    gitRepo: "team/loaded",
    runtime: "custom",
    entrypoint: ["python", "server.py"],
    port: 8000,
    disableAuth: true,
    minReplicaCount: 1,
    replicaConcurrency: 200,
    ...scaling,
  });
  assert.equal(status, "success", log);
}
