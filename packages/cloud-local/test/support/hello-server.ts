// Run by listeners.ts inside a network namespace: answers each HTTP request at a port with "hello".
import { createServer } from "node:http";

const [, , port] = process.argv;
createServer((_request, response) => response.end("hello")).listen(Number(port), () =>
  console.log("listening"),
);
