const short: Readonly<Record<string, string>> = { "-o": "--output", "-n": "--namespace" };

/** Separates the words of a command line from its flags and their values. `-o` and `-n` are kubectl's short forms. */
export function separateWords(args: readonly string[]): {
  readonly words: readonly string[];
  readonly flags: readonly string[];
} {
  const words: string[] = [];
  const flags: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const arg = short[args[i] ?? ""] ?? args[i] ?? "";
    if (!arg.startsWith("-")) {
      words.push(arg);
      continue;
    }
    flags.push(arg);
    const next = args[i + 1];
    const takesValue = arg !== "--help" && arg !== "-h" && !arg.includes("=");
    if (takesValue && next !== undefined && !next.startsWith("-")) flags.push(args[++i] ?? "");
  }
  return { words, flags };
}
