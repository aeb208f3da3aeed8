import { networkInterfaces } from "node:os";

/** Whether a client's IPv4 address is one of this computer: then the client is a program here. */
export function isOwnAddress(address: string): boolean {
  return address.startsWith("127.") || ownAddresses().includes(address);
}

/** IPv4 addresses of this computer. */
export function ownAddresses(): readonly string[] {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return [...new Set(all.filter(({ family }) => family === "IPv4").map(({ address }) => address))];
}
