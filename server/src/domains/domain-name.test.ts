// Which names can be domains of apps, and how they are written.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readDomainName } from "./domain-name.ts";

const platform = { host: "slipway.example.org", parent: "apps.example.net" };
const read = (text: string): string => readDomainName(text, platform);

test("a name is kept as DNS has it", () => {
  assert.equal(read("shop.example.org"), "shop.example.org");
  assert.equal(read(" Shop.Example.ORG. "), "shop.example.org");
  assert.equal(read("bücher.example"), "xn--bcher-kva.example");
  assert.equal(read("xn--bcher-kva.example"), "xn--bcher-kva.example");
  assert.equal(read("a.b-c.d1.example.co.uk"), "a.b-c.d1.example.co.uk");
  // Another name than the platform's, although it ends with the same letters.
  assert.equal(read("myslipway.example.org"), "myslipway.example.org");
});

test("what no app can have is refused, with the value and what is allowed", () => {
  const refusals: Record<string, RegExp> = {
    "": /name is "", but must be a host name with at least two parts/,
    shop: /name is "shop", but must be a host name with at least two parts/,
    "*.example.org": /without \*: add each name/,
    "https://shop.example.org": /without scheme, port and path/,
    "shop.example.org:8080": /without scheme, port and path/,
    "shop.example.org/path": /without scheme, port and path/,
    "192.0.2.7": /and no address/,
    "3221225991": /must be a host name/,
    "0xc0.0.2.7": /and no address/,
    "2001:db8::1": /and no address/,
    "[2001:db8::1]": /without scheme, port and path/,
    "shop..example.org": /must be a host name/,
    "-shop.example.org": /must be a host name/,
    "shop_1.example.org": /must be a host name/,
    "shop.example.123": /must be a host name/,
    [`${"a".repeat(64)}.example.org`]: /must be a host name/,
    [`${"a.".repeat(120)}example.org`]: /at most \d+ characters|must be a host name/,
    "my-app.localhost": /that DNS can have/,
    "printer.local": /that DNS can have/,
    "1.168.192.in-addr.arpa": /that DNS can have/,
    "slipway.example.org": /slipway\.example\.org and all names below it are the platform's/,
    "x.slipway.example.org": /are the platform's/,
    "SLIPWAY.example.org.": /are the platform's/,
    "example.org": /a name that the platform's own, slipway\.example\.org, is not below/,
    "apps.example.net": /apps\.example\.net and all names below it are the platform's/,
    "shop-p-0123abcd.apps.example.net": /are the platform's/,
  };
  for (const [text, message] of Object.entries(refusals)) {
    assert.throws(() => read(text), { code: "invalid", message }, text);
  }
});
