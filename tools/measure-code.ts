// Prints figures on the shape of the code, for docs/designs. Usage: node tools/measure-code.ts [--rev REV]
import { execFileSync } from "node:child_process";
import { globSync, writeFileSync } from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { temporaryFolder } from "@kip/testing";
import { API } from "typescript/unstable/sync";
import { SyntaxKind, type Node, type SourceFile } from "typescript/unstable/ast";
import * as is from "typescript/unstable/ast/is";

/** The metrics, with the places that count for each. */
type Counts = Record<string, string[]>;

interface Measured {
  readonly file: string;
  readonly source: SourceFile;
}

const { rev } = parseArgs({ options: { rev: { type: "string" } } }).values;
using work = temporaryFolder();
const root = rev === undefined ? process.cwd() : checkedOut(rev);
const files = parse(
  globSync(["packages/*/{src,test}/**/*.ts", "apps/*/{src,test}/**/*.ts"], { cwd: root }),
);
const product = files.filter(({ file }) => !isTest(file));

console.log(`${rev ?? "working tree"}: ${product.length} files of the product\n`);
console.log("The ten longest functions (lines):");
for (const { lines, place } of product
  .flatMap(functionsOf)
  .sort((a, b) => b.lines - a.lines)
  .slice(0, 10))
  console.log(`  ${lines}  ${place}`);
printTotals();
console.log("\nFolders of a package that import each other:");
for (const pair of mutualFolders(product)) console.log(`  ${pair}`);
console.log("\nFiles of at most 20 code lines with one importer:");
for (const file of smallFiles(product)) console.log(`  ${file}`);
console.log("\nPublic names per library:");
for (const { file, source } of product.filter(({ file }) =>
  /^packages\/[^/]+\/src\/index\.ts$/.test(file),
))
  console.log(`  ${String(publicNames(source)).padStart(3)}  ${file.split("/")[1]}`);

function checkedOut(revision: string): string {
  const archive = execFileSync("git", ["archive", revision], { maxBuffer: 2 ** 30 });
  execFileSync("tar", ["-x", "-C", work.path], { input: archive });
  return work.path;
}

/** Only parses the syntax, without following imports or libraries. */
function parse(names: readonly string[]): Measured[] {
  const config = path.join(work.path, "measured.tsconfig.json");
  const compilerOptions = {
    noLib: true,
    noResolve: true,
    types: [],
    module: "nodenext",
    noEmit: true,
  };
  const absolute = names.map((name) => path.join(root, name));
  writeFileSync(config, JSON.stringify({ compilerOptions, files: absolute }));
  const api = new API({ cwd: root });
  const project = api.updateSnapshot({ openProjects: [config] }).getProject(config);
  if (!project) throw new Error("TypeScript opened no project");
  const found = names.toSorted().flatMap((file) => {
    const source = project.program.getSourceFile(path.join(root, file));
    return source ? { file, source } : [];
  });
  api.close();
  return found;
}

function isTest(file: string): boolean {
  return /\.test\.ts$|\/test\/|\/testing\/|\.gen\.ts$/.test(file);
}

function printTotals(): void {
  const counts: Counts = {};
  for (const measured of product) walk(measured.source, (node) => count(counts, node, measured));
  const clocks = files.filter(({ file }) => isTest(file) && !file.startsWith("packages/testing/"));
  counts["fake clocks in tests"] = clocks.flatMap(fakeClocks);
  counts["files that start processes by node:child_process"] = product
    .filter(({ source }) => source.text.includes('"node:child_process"'))
    .map(({ file }) => file);
  console.log("\nTotals:");
  for (const [what, places] of Object.entries(counts).sort(([a], [b]) => (a < b ? -1 : 1)))
    console.log(`  ${String(places.length).padStart(4)}  ${what}`);
}

function walk(node: Node, visit: (node: Node) => void): void {
  visit(node);
  node.forEachChild((child) => {
    walk(child, visit);
    return undefined;
  });
}

function count(counts: Counts, node: Node, { file, source }: Measured): void {
  const text = (each: Node): string => source.text.slice(each.pos, each.end).trim();
  const add = (what: string): void =>
    void (counts[what] ??= []).push(`${file}:${lineOf(node, source)}`);
  if (is.isSpreadAssignment(node)) {
    const inner = is.isParenthesizedExpression(node.expression) ? node.expression.expression : node;
    if (
      is.isBinaryExpression(inner) &&
      inner.operatorToken.kind === SyntaxKind.AmpersandAmpersandToken
    )
      add("conditional spreads");
  } else if (is.isBinaryExpression(node)) {
    const isFallback = node.operatorToken.kind === SyntaxKind.QuestionQuestionToken;
    if (isFallback && is.isStringLiteral(node.right) && node.right.text === "") add('?? ""');
  } else if (is.isPropertyAccessExpression(node)) {
    if (node.questionDotToken && /\bmetadata$/.test(text(node.expression))) add("metadata?.");
  } else if (is.isAsExpression(node)) {
    if (text(node.type) !== "const") add("type casts");
  } else if (is.isCallExpression(node)) {
    const callee = text(node.expression);
    if (callee === "Promise.race") add("Promise.race by hand");
    const [handler] = node.arguments;
    const isSilent = handler !== undefined && /^\(\w*\) => \{\}$/.test(text(handler));
    if (isSilent && /\b(?:sleep|pause|delay|setTimeout)\([^]*\.catch$/.test(callee))
      add("swallowed sleeps");
  }
}

function lineOf(node: Node, source: SourceFile): number {
  const start =
    node.pos +
    /^(?:\s|\/\*[^]*?\*\/|\/\/.*)*/.exec(source.text.slice(node.pos, node.end))![0].length;
  return source.text.slice(0, start).split("\n").length;
}

function functionsOf({
  file,
  source,
}: Measured): { readonly lines: number; readonly place: string }[] {
  const found: { lines: number; place: string }[] = [];
  walk(source, (node) => {
    const isFunction =
      is.isFunctionDeclaration(node) ||
      is.isMethodDeclaration(node) ||
      is.isConstructorDeclaration(node) ||
      is.isArrowFunction(node) ||
      is.isFunctionExpression(node);
    if (!isFunction) return;
    const start = lineOf(node, source);
    const lines = source.text.slice(0, node.end).split("\n").length - start + 1;
    const name =
      "name" in node && node.name ? source.text.slice(node.name.pos, node.name.end).trim() : "";
    found.push({ lines, place: `${file}:${start} ${name}`.trim() });
  });
  return found;
}

/** Relative imports of a file, as paths from the root of the repository. */
function importsOf({ file, source }: Measured): string[] {
  return source.statements.flatMap((node) => {
    if (!is.isImportDeclaration(node) && !is.isExportDeclaration(node)) return [];
    const specifier = node.moduleSpecifier;
    if (!specifier || !is.isStringLiteral(specifier) || !specifier.text.startsWith(".")) return [];
    return [path.join(path.dirname(file), specifier.text)];
  });
}

/** A package's public index and its errors may be used from all folders, and may use all folders. */
function isAnyFolders(file: string): boolean {
  return /^\w+\/[^/]+\/src\/(?:index|errors)\.ts$/.test(file);
}

function mutualFolders(all: readonly Measured[]): string[] {
  const edges = new Set<string>();
  for (const measured of all) {
    for (const target of importsOf(measured)) {
      if (isAnyFolders(measured.file) || isAnyFolders(target)) continue;
      edges.add(`${path.dirname(measured.file)} ${path.dirname(target)}`);
    }
  }
  return [...edges].flatMap((edge) => {
    const [from = "", to = ""] = edge.split(" ");
    return from < to && edges.has(`${to} ${from}`) ? [`${from} <-> ${to}`] : [];
  });
}

function smallFiles(all: readonly Measured[]): string[] {
  const importers = new Map<string, number>();
  for (const measured of all) {
    // A re-export by the public index counts as two importers, so that the file does not count as used by only one.
    const weight = measured.file.endsWith("/src/index.ts") ? 2 : 1;
    for (const target of new Set(importsOf(measured)))
      importers.set(target, (importers.get(target) ?? 0) + weight);
  }
  return all.flatMap(({ file, source }) => {
    const plain = source.text.replaceAll(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, "");
    const lines = plain.split("\n").filter((line) => line.trim() !== "").length;
    return lines <= 20 && importers.get(file) === 1 ? [`${file} (${lines})`] : [];
  });
}

function publicNames(source: SourceFile): number {
  return source.statements.reduce((sum, node) => {
    if (!is.isExportDeclaration(node)) return sum;
    const clause = node.exportClause;
    return sum + (clause && is.isNamedExports(clause) ? clause.elements.length : 1);
  }, 0);
}

/** Fake clocks in tests: `function xClock`, `class XClock`, `{ ...systemClock, … }`. */
function fakeClocks({ file, source }: Measured): string[] {
  const own = source.text.matchAll(/\b(?:function|class) \w*Clock\b|\.\.\.systemClock\b/gi);
  return [...own].map(({ index }) => `${file}:${source.text.slice(0, index).split("\n").length}`);
}
