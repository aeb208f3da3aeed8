// Started by listeners.ts inside a network namespace. Answers each HTTP request on a port with "hello".
import { createServer } from "node:http";

const [, , port] = process.argv;
createServer((_request, response) => response.end("hello")).listen(Number(port), () =>
  console.log("listening"),
);
