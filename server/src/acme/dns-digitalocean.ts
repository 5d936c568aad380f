// Changes records at DigitalOcean. The token needs the permissions to read, create and delete
// domains' records.
import { DnsApi, type DnsApiOptions } from "./dns-api.ts";
import type { TxtRecords, TxtRecord } from "./dns-records.ts";

type Listed = {
  readonly domain_records?: readonly { readonly id: number; readonly data: string }[];
} | null;

/** How long resolvers may keep the record, in seconds: the least that DigitalOcean takes. */
const ttl = 30;

/** Records at DigitalOcean. */
export class DigitalOceanRecords implements TxtRecords {
  readonly #api: DnsApi;

  constructor(options: DnsApiOptions) {
    this.#api = new DnsApi("https://api.digitalocean.com/v2", options);
  }

  async add({ name, value }: TxtRecord): Promise<void> {
    const zone = await this.#zoneOf(name);
    // In a new record, the name is without the domain.
    const label = name.slice(0, -(zone.length + 1));
    const body = { type: "TXT", name: label, data: value, ttl };
    await this.#api.send("POST", `/domains/${zone}/records`, body);
  }

  async remove({ name, value }: TxtRecord): Promise<void> {
    const path = `/domains/${await this.#zoneOf(name)}/records`;
    // In a query, the name is complete. 200 is the longest page.
    const query = new URLSearchParams({ type: "TXT", name, per_page: "200" });
    const { data } = await this.#api.send("GET", `${path}?${query.toString()}`);
    for (const record of (data as Listed)?.domain_records ?? [])
      if (record.data === value) await this.#api.send("DELETE", `${path}/${record.id}`);
  }

  #zoneOf(name: string): Promise<string> {
    return this.#api.zoneOf(name, async (zone) => {
      const { status } = await this.#api.send("GET", `/domains/${encodeURIComponent(zone)}`);
      return status === 404 ? null : zone;
    });
  }
}
