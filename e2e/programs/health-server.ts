// Serves gRPC's health protocol: the service that its argument in the environment names is well, others are unknown. Runs in a pod by
// the Node of its cell, which is given this text: so it imports nothing of ours.
import http2 from "node:http2";
import process from "node:process";

const service = process.env["SERVICE"] ?? "";
/** A HealthCheckResponse with SERVING, behind the five bytes of a message that is not compressed. */
const serving = Buffer.from([0, 0, 0, 0, 2, 8, 1]);

const server = http2.createServer();
server.on("stream", (stream, headers) => {
  const parts: Buffer[] = [];
  stream.on("data", (part: Buffer) => parts.push(part));
  stream.on("end", () => {
    // A HealthCheckRequest has the name as its first field, behind tag and length.
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
