// Stands in for the agent in the bare boot: the least that answers HTTP on the agent's port.
import { createServer } from "node:http";

createServer((_request, response) => response.end("ok\n")).listen(6421, "0.0.0.0");
