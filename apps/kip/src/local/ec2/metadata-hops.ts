import { runCommand } from "@kip/base";

/** How far answers of the metadata service go, in its namespace. */
export class MetadataHops {
  readonly #namespaceFile: string;
  readonly #service: string;

  constructor(namespaceFile: string, service: string) {
    this.#namespaceFile = namespaceFile;
    this.#service = service;
  }

  /** Lets all answers end at the machine: a pod, which is one hop behind it, gets none. */
  async prepare(): Promise<void> {
    await this.#nft(`
add table ip kip_metadata
delete table ip kip_metadata
table ip kip_metadata {
  map hops {
    type ipv4_addr : verdict
  }
  chain two {
    ip ttl set 2
    accept
  }
  chain output {
    type filter hook output priority mangle
    ip saddr != ${this.#service} accept
    ip daddr vmap @hops
    ip ttl set 1
  }
}
`);
  }

  /** Lets answers to these addresses go one hop further. */
  async allow(addresses: readonly string[]): Promise<void> {
    await this.#nft(`add element ip kip_metadata hops { ${elements(addresses)} }\n`);
  }

  /** Undoes {@link allow}. */
  async forget(addresses: readonly string[]): Promise<void> {
    await this.#nft(`delete element ip kip_metadata hops { ${elements(addresses)} }\n`);
  }

  async #nft(input: string): Promise<void> {
    await runCommand("nsenter", [`--net=${this.#namespaceFile}`, "nft", "-f", "-"], { input });
  }
}

function elements(addresses: readonly string[]): string {
  return addresses.map((address) => `${address} : goto two`).join(", ");
}
