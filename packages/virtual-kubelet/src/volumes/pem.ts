const begin = "-----BEGIN ";
const lineLength = 64;

/** The contents of a text's PEM blocks of any type, in base64. Ignores everything between blocks and in their headers. */
export function pemBlocks(text: string): readonly string[] {
  const blocks: string[] = [];
  for (let at = text.indexOf(begin); at >= 0; at = text.indexOf(begin, at + 1)) {
    const headEnd = text.indexOf("\n", at);
    const end = text.indexOf("\n-----END ", headEnd);
    if (headEnd < 0 || end < 0) break;
    const lines = text.slice(headEnd + 1, end).split("\n");
    const bodyAt = lines.findIndex((line) => line.trim() === "") + 1;
    blocks.push(lines.slice(bodyAt).join("").replaceAll(/\s/g, ""));
    at = end;
  }
  return blocks;
}

/** Joins certificates in base64 into one PEM text. */
export function certificatesPem(blocks: readonly string[]): string {
  return blocks.map((block) => pemBlock("CERTIFICATE", block)).join("");
}

function pemBlock(type: string, base64: string): string {
  const lines: string[] = [];
  for (let at = 0; at < base64.length; at += lineLength)
    lines.push(base64.slice(at, at + lineLength));
  return `-----BEGIN ${type}-----\n${lines.join("\n")}\n-----END ${type}-----\n`;
}
