import type { Finding, Outcome } from "@kip/cluster-network";

/**
 * Formats a finding for a terminal. Sentences may quote text from others, such as event messages. So control characters and
 * line breaks are written as `\u001b`.
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
