// The rows of /proc/net/tcp by state.
import assert from "node:assert/strict";
import { test } from "node:test";
import { listeningRows, openingRows } from "./listening-rows.ts";

const tables = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 3881 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1B9E 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 3882 1 0000000000000000 20 4 30 10 -1
   2: 0100007F:1B9E 0100007F:D2F2 03 00000000:00000000 01:00000064 00000000  1000        0 0 1 0000000000000000
`;

test("sockets that listen and connections that are being opened are found, and no others", () => {
  const address = "0100007F";
  assert.deepEqual(listeningRows(tables), [{ address, port: 7070, userId: 0, inode: "3881" }]);
  assert.deepEqual(openingRows(tables), [{ address, port: 7070, userId: 1000, inode: "0" }]);
});
