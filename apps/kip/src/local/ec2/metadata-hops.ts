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
    await this.#nft(change("add", addresses));
  }

  /** Undoes {@link allow}; nothing happens where nothing was allowed. */
  async forget(addresses: readonly string[]): Promise<void> {
    // What is not there cannot be deleted, and one transaction does both.
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
