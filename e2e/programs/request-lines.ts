// Requests at a steady rate, and a line for each: its number, and whether it was answered. Beside them one connection that is kept open
// to an echo. Runs in a pod by the Node of its cell, which is given this text: so it imports nothing of ours.
import http from "node:http";
import net from "node:net";

const { ASK_URL = "", ECHO_HOST = "", ECHO_PORT = "" } = process.env;
const perSecond = 5;
/** How long a connection may take: a packet that is dropped is sent again after one second. */
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

// Until its input ends.
process.stdin.resume().on("end", () => {
  clearInterval(timer);
  console.log(JSON.stringify({ echoed }));
  kept.destroy();
});
