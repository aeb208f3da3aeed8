// Stands in for the agent in the bare boot: a minimal HTTP server at the agent's port.
import { createServer } from "node:http";

createServer((_request, response) => response.end("ok\n")).listen(6421, "0.0.0.0");
