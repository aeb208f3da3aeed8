// Listens at an address in this process's network namespace, hands the socket to the parent process, and exits.
import { createServer } from "node:net";

const [address = "", port = ""] = process.argv.slice(2);
const server = createServer();
server.listen({ host: address, port: Number(port) }, () => process.send?.("listening", server));
process.once("disconnect", () => process.exit());
