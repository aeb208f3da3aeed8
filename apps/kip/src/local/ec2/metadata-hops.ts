import { runCommand } from "@kip/base";

/** Limits how many hops responses of the metadata service travel, by nftables rules in its namespace. */
export class MetadataHops {
  readonly #namespaceFile: string;
  readonly #service: string;

  constructor(namespaceFile: string, service: string) {
    this.#namespaceFile = namespaceFile;
    this.#service = service;
  }

  /** Limits all responses to one hop, so that they reach the machine but not its pod, which is one hop further. */
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

  /** Allows a second hop for responses to these addresses. */
  async allow(addresses: readonly string[]): Promise<void> {
    await this.#nft(change("add", addresses));
  }

  /** Undoes {@link allow}. Does nothing for addresses that were not allowed. */
  async forget(addresses: readonly string[]): Promise<void> {
    // nft cannot delete an element that does not exist, so add it first in the same transaction.
    await this.#nft(change("add", addresses) + change("delete", addresses));
  }

  async #nft(input: string): Promise<void> {
    await runCommand("nsenter", [`--net=${this.#namespaceFile}`, "nft", "-f", "-"], { input });
  }
}

function change(verb: "add" | "delete", addresses: readonly string[]): string {
  const elements = addresses.map((address) => `${address} : goto two`).join(", ");
  return `${verb} element ip kip_metadata hops { ${elements} }\n`;
}
