import type { Finding, Outcome } from "@kip/cluster-network";

/**
 * A finding as text for a terminal. Sentences have texts of others, as messages of events: what would control the terminal, or
 * begin a line, is written as `\u001b`.
 */
export function findingText({ outcome, sentences }: Finding): string {
  const conclusion = conclusions[outcome];
  return [...sentences.map(printable), ...(conclusion === undefined ? [] : ["", conclusion])].join(
    "\n",
  );
}

const conclusions: Readonly<Record<Outcome, string | undefined>> = {
  described: undefined,
  passes: "It passes.",
  refused: "It does not pass: the connection is refused at once.",
  dropped: "It does not pass: packets are dropped.",
  absent: "It does not pass: one end is missing.",
  partly: "It depends on the endpoint, or the IP version, that is chosen.",
  unknown: "Not known: see above.",
};

function printable(text: string): string {
  const escaped = (sign: string): string =>
    `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return text.replaceAll(/\p{Cc}/gu, escaped);
}
