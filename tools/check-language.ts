// Fails on the phrases that docs/glossary.md lists under "Words we do not use", in sources and pages.
//   node tools/check-language.ts [folder ...]
import { globSync, readFileSync } from "node:fs";

/** Phrases to look for, and what to write instead. The context exempts upstream words, such as the kubelet's messages. */
const phrases: readonly (readonly [pattern: RegExp, instead: string])[] = [
  [
    /\b(?<![Tt]here )(?:is|are|was|were) no (?!longer\b|more than\b|such\b|default\b|matches for\b)[a-z]+\b/g,
    "not a valid …, not …",
  ],
  [/\bnobody\b(?![:])/gi, "no one, or name who"],
  [/\b(?:not|nothing|no) [^.]{0,40}\bany ?more\b/g, "no longer"],
  [/\b(?:is|are|was|were|be|been) told\b/g, "reported, sent, informed"],
  [/\bfor ever\b/gi, "indefinitely, without end"],
  [/\banew\b/gi, "again"],
  [/\bwho(?:ever|m)\b/gi, "name who"],
  [/\bmakes no sense\b/gi, "is invalid"],
  // personality(2) is a system call.
  [
    /(?<!kip\.)\b(?:personality(?!\(2\)|"\])|errand|tellers?|spoilt|appearance)\b/gi,
    "see docs/glossary.md",
  ],
];

/** Pages that quote these phrases or describe earlier versions. */
const exempt: readonly string[] = ["LICENSE", "docs/glossary.md", "tools/check-language.ts"];

const folders = process.argv.slice(2);
const files = globSync([
  "{packages,apps,e2e,bench,tools,examples,docs,deploy}/**/*.{ts,md,sh,yaml}",
  "*.md",
]).filter(
  (file) =>
    !/node_modules|\/gen\//.test(file) &&
    !exempt.includes(file) &&
    (folders.length === 0 || folders.some((folder) => file.startsWith(folder))),
);

let count = 0;
for (const file of files) {
  for (const [index, line] of readFileSync(file, "utf8").split("\n").entries()) {
    for (const [pattern, instead] of phrases) {
      for (const [found] of line.matchAll(pattern)) {
        console.error(`${file}:${index + 1}: "${found}": write ${instead}`);
        count++;
      }
    }
  }
}
if (count > 0) console.error(`${count} phrases to replace, see docs/glossary.md`);
process.exitCode = count === 0 ? 0 : 1;
