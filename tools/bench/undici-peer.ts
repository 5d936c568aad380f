// A peer of the proxy benchmark: a minimal proxy with node:http and undici. Argument: the
// upstream's port.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Pool, type Dispatcher } from "undici";

const pool = new Pool(`http://127.0.0.1:${process.argv[2]}`, { connections: 256, pipelining: 1 });
const server = createServer((request, response) => {
  const { host, connection: _connection, ...headers } = request.headers;
  const hasBody =
    request.headers["content-length"] !== undefined ||
    request.headers["transfer-encoding"] !== undefined;
  const options = {
    path: request.url ?? "/",
    method: request.method as Dispatcher.HttpMethod,
    headers: { ...headers, host: host ?? "" },
    body: hasBody ? request : null,
    opaque: response,
  };
  pool
    .stream(options, ({ statusCode, headers: answered }) => {
      const { connection: _closed, "keep-alive": _kept, ...passed } = answered;
      return response.writeHead(statusCode, passed);
    })
    .catch(() => response.destroy());
});
server.listen(0, "127.0.0.1", () =>
  console.log(`listening ${(server.address() as AddressInfo).port}`),
);
process.once("SIGTERM", () => process.exit(0));
