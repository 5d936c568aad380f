// The two nginx servers of the proxy benchmark: the upstream, which answers every call at once, and
// the peer that is compared with our proxy, with keep-alive to the upstream and the header fields
// that our proxy sends.
import { writeFileSync } from "node:fs";
import { join } from "node:path";

const answer = '{"run_id":"00000000-0000-4000-8000-000000000000","result":"ok","run_time_ms":0.01}';

/** Writes the upstream's configuration into the folder; returns its path. */
export function writeUpstreamConfig(folder: string, port: number): string {
  const server = `server {
    listen 127.0.0.1:${port} backlog=4096;
    location / { default_type application/json; return 200 '${answer}'; }
  }`;
  return write(folder, "upstream", server);
}

/** The certificate of a server. */
export type TlsFiles = { readonly certificateFile: string; readonly keyFile: string };

/**
 * Writes the peer's configuration into the folder; returns its path. `prefix`: what it strips from
 * paths. `tls`: it speaks HTTP/2 too.
 */
export function writePeerConfig(
  folder: string,
  ports: { port: number; upstreamPort: number },
  { prefix, tls }: { readonly prefix: string; readonly tls: TlsFiles | null },
): string {
  const options = tls === null ? "" : "ssl http2 ";
  const certificate =
    tls === null
      ? ""
      : `ssl_certificate ${tls.certificateFile}; ssl_certificate_key ${tls.keyFile}; ssl_protocols TLSv1.2 TLSv1.3;`;
  const server = `upstream replica { server 127.0.0.1:${ports.upstreamPort}; keepalive 256; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${ports.port} ${options}backlog=4096;
    ${certificate}
    location ${prefix} {
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_set_header Authorization "";
      proxy_set_header X-Request-Id $request_id;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-Host $host;
      proxy_pass http://replica/;
    }
  }`;
  return write(folder, tls === null ? "peer" : "tls-peer", server);
}

function write(folder: string, name: string, server: string): string {
  const file = join(folder, `${name}.conf`);
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((kind) => `${kind}_temp_path ${join(folder, `${name}-${kind}`)};`)
    .join(" ");
  writeFileSync(
    file,
    `worker_processes 1;
daemon off;
pid ${join(folder, `${name}.pid`)};
error_log ${join(folder, `${name}.log`)};
events { worker_connections 4096; }
http {
  access_log off;
  keepalive_requests 1000000000;
  keepalive_timeout 75s;
  ${temporary}
  ${server}
}
`,
  );
  return file;
}
