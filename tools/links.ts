/** Input of a link check. */
export interface LinkCheck {
  readonly page: string;
  readonly text: string;
  /** Whether a file or folder exists. */
  readonly exists: (file: string) => boolean;
  readonly read: (file: string) => string;
}

/** Repository paths in backquotes. */
const namedPath =
  /`((?:packages|apps|tools|e2e|bench|docs|examples|deploy)\/[\w./-]+\.(?:ts|sh|json|md|yaml))`/g;
const link = /\]\((?<file>[^)#\s]*)(?:#(?<anchor>[^)\s]*))?[^)]*\)/g;

/** The problems of one Markdown page: files that do not exist, and anchors without a heading. */
export function brokenLinks({ page, text, exists, read }: LinkCheck): readonly string[] {
  const prose = withoutFences(text);
  const links = [...prose.matchAll(link)].flatMap(({ groups }) => {
    const [file = "", anchor] = [groups?.["file"], groups?.["anchor"]];
    if (/^[a-z]+:/.test(file)) return [];
    const target = file === "" ? page : joined(page, file);
    if (!exists(target)) return [`"${file}" does not exist`];
    if (anchor === undefined || !target.endsWith(".md")) return [];
    return anchorsOf(read(target)).has(anchor)
      ? []
      : [`"${file}#${anchor}": ${target} has no heading with this anchor`];
  });
  const names = [...text.matchAll(namedPath)].flatMap(([, file = ""]) =>
    exists(file) ? [] : [`"${file}" does not exist`],
  );
  return [...links, ...names].map((problem) => `${page}: ${problem}`);
}

/**
 * The anchors of a page, as GitHub creates them: a heading's visible text in lower case, without punctuation, and with hyphens
 * for spaces. Repeated headings get `-1`, `-2` and so on, in order.
 */
export function anchorsOf(markdown: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, heading = ""] of withoutFences(markdown).matchAll(/^#{1,6} +(.+?)[ #]*$/gm)) {
    const base = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\p{M}_ -]/gu, "")
      .replaceAll(" ", "-");
    let anchor = base;
    for (let count = 1; anchors.has(anchor); count++) anchor = `${base}-${count}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** A text without its fenced blocks, whose lines are neither headings nor links. */
function withoutFences(markdown: string): string {
  return markdown.replaceAll(/^(?<fence> *(?:```+|~~~+)).*?^\k<fence>[ \t]*$/gms, "");
}

function joined(page: string, file: string): string {
  return new URL(file, `file:///${page}`).pathname.slice(1);
}
