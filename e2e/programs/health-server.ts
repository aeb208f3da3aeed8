// Serves gRPC's health protocol. The service named in its environment is healthy, others are unknown. It runs in a pod on the
// cell's Node, which gets this text. So it must not import modules of this repository.
import http2 from "node:http2";
import process from "node:process";

const service = process.env["SERVICE"] ?? "";
/** A HealthCheckResponse with SERVING, after the five-byte header of an uncompressed message. */
const serving = Buffer.from([0, 0, 0, 0, 2, 8, 1]);

const server = http2.createServer();
server.on("stream", (stream, headers) => {
  const parts: Buffer[] = [];
  stream.on("data", (part: Buffer) => parts.push(part));
  stream.on("end", () => {
    // The name is the first field of a HealthCheckRequest, after tag and length.
    const asked = Buffer.concat(parts).subarray(7).toString();
    const isKnown = headers[":path"] === "/grpc.health.v1.Health/Check" && asked === service;
    stream.respond(
      { ":status": 200, "content-type": "application/grpc" },
      { waitForTrailers: true },
    );
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": isKnown ? "0" : "5" }));
    stream.end(isKnown ? serving : undefined);
    console.log(`asked for ${asked}`);
  });
});
server.listen(9090, () => console.log("listening"));
