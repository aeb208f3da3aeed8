// Sends requests at a steady rate, and prints a line for each with its number and whether it was answered. It also keeps one
// connection to an echo server open. It runs in a pod on the cell's Node, which gets this text. So it must not import modules
// of this repository.
import http from "node:http";
import net from "node:net";

const { ASK_URL = "", ECHO_HOST = "", ECHO_PORT = "" } = process.env;
const perSecond = 5;
/** Time limit for a connection, milliseconds. A dropped packet is sent again after one second. */
const timeoutMs = 3000;

let count = 0;
const timer = setInterval(() => {
  const number = count++;
  const say = (isAnswered: boolean): void => console.log(JSON.stringify({ number, isAnswered }));
  const request = http.get(ASK_URL, { agent: false }, (answer) => {
    answer.resume().on("end", () => say(true));
  });
  const limit = setTimeout(() => request.destroy(new Error("no answer")), timeoutMs);
  request.on("close", () => clearTimeout(limit)).on("error", () => say(false));
}, 1000 / perSecond);

let echoed = 0;
const kept = net.connect(Number(ECHO_PORT), ECHO_HOST, () => kept.write("x"));
kept.on("error", (error) => console.log(JSON.stringify({ broken: String(error) })));
kept.on("data", () => {
  echoed += 1;
  setTimeout(() => kept.write("x"), 200);
});

// Stop at the end of the input.
process.stdin.resume().on("end", () => {
  clearInterval(timer);
  console.log(JSON.stringify({ echoed }));
  kept.destroy();
});
