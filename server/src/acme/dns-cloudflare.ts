// Changes records at Cloudflare. The token needs the permissions to read zones and to edit DNS.
import { DnsApi, type DnsApiOptions } from "./dns-api.ts";
import type { TxtRecords, TxtRecord } from "./dns-records.ts";

type Listed = { readonly result?: readonly { readonly id: string }[] | null } | null;

/** How long resolvers may keep the record, in seconds: the least that Cloudflare takes. */
const ttl = 60;

/** Records at Cloudflare. */
export class CloudflareRecords implements TxtRecords {
  readonly #api: DnsApi;

  constructor(options: DnsApiOptions) {
    this.#api = new DnsApi("https://api.cloudflare.com/client/v4", options);
  }

  async add({ name, value }: TxtRecord): Promise<void> {
    // Cloudflare keeps the text of a TXT record in quotes.
    const body = { type: "TXT", name, content: `"${value}"`, ttl };
    await this.#api.send("POST", `${await this.#recordsOf(name)}`, body);
  }

  async remove({ name, value }: TxtRecord): Promise<void> {
    const path = await this.#recordsOf(name);
    const query = new URLSearchParams({ type: "TXT", name, content: `"${value}"` });
    const { data } = await this.#api.send("GET", `${path}?${query.toString()}`);
    for (const { id } of (data as Listed)?.result ?? [])
      await this.#api.send("DELETE", `${path}/${id}`);
  }

  #recordsOf(name: string): Promise<string> {
    return this.#api.zoneOf(name, async (zone) => {
      const { data } = await this.#api.send("GET", `/zones?name=${encodeURIComponent(zone)}`);
      const [first] = (data as Listed)?.result ?? [];
      return first === undefined ? null : `/zones/${first.id}/dns_records`;
    });
  }
}
