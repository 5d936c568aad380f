// Where a replica listens, by the kernel's tables, and what its owner reads about it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { listeningSockets, listensElsewhere } from "./listening-ports.ts";

const tables = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:2328 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12 1 0000000000000000 100 0 0 10 0
   2: 0B00007F:A1B2 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 13 1 0000000000000000 100 0 0 10 0
   3: 0100007F:1F41 0100007F:1F40 01 00000000:00000000 00:00000000 00000000  1000        0 14 1 0000000000000000 100 0 0 10 0
  sl  local_address                         remote_address                        st tx_queue rx_queue
   0: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 15 1
   1: 00000000000000000000000001000000:0051 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 16 1
   2: 0000000000000000FFFF00000100007F:0052 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 17 1
`;

test("listening sockets are found in the kernel's tables, with the addresses that only the replica reaches", () => {
  const found = listeningSockets(tables).map(({ port, isLoopback, inode }) => [
    port,
    isLoopback,
    inode,
  ]);
  assert.deepEqual(found, [
    [9000, false, "11"],
    [8000, true, "12"],
    [80, false, "15"],
    [81, true, "16"],
    [82, true, "17"],
  ]);
});

test("an owner reads where the app listens instead, and what to do", () => {
  const any = { port: 9000, isLoopback: false, inode: "1" };
  const own = { port: 9000, isLoopback: true, inode: "2" };
  const more = { port: 9100, isLoopback: false, inode: "3" };
  const cases: [Parameters<typeof listensElsewhere>, string | null][] = [
    [[[any], { port: 9000, needsAll: true }], null],
    [[[own], { port: 9000, needsAll: false }], null],
    [[[], { port: 8000, needsAll: true }], null],
    [
      [[own], { port: 9000, needsAll: true }],
      "It listens on port 9000 of 127.0.0.1 only, where no call reaches it: have it listen on 0.0.0.0.",
    ],
    [
      [[any], { port: 8000, needsAll: true }],
      "It listens on port 9000: set port = 9000, or have it listen on 8000.",
    ],
    [
      [[own], { port: 8000, needsAll: false }],
      "It listens on port 9000: set port = 9000, or have it listen on 8000.",
    ],
    [
      [[own], { port: 8000, needsAll: true }],
      "It listens on port 9000 of 127.0.0.1 only: set port = 9000 and have it listen on 0.0.0.0, or have it listen on 8000.",
    ],
    [
      [[any, more], { port: 8000, needsAll: true }],
      "It listens on the ports 9000, 9100: set port to the one that is to be called, or have it listen on 8000.",
    ],
  ];
  for (const [given, expected] of cases) assert.equal(listensElsewhere(...given), expected);
});
