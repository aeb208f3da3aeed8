// Listens at an address of the network namespace that this program runs in, hands the socket to the program that started it, and ends.
import { createServer } from "node:net";

const [address = "", port = ""] = process.argv.slice(2);
const server = createServer();
server.listen({ host: address, port: Number(port) }, () => process.send?.("listening", server));
process.once("disconnect", () => process.exit());
