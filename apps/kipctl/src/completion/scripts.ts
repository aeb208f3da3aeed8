/** Shells that have completion. */
export const shells = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof shells)[number];

/**
 * A script that makes a shell ask kipctl itself for completions: `kipctl __complete WORDS...`, where the last word is the one
 * that the user is typing. The output has one candidate per line, with its description after a tab, and ends with a line ":N"
 * as for kubectl's plugins.
 */
export function completionScript(shell: Shell): string {
  return scripts[shell];
}

const scripts: Readonly<Record<Shell, string>> = {
  bash: `# bash completion for kipctl: source <(kipctl completion bash)
_kipctl() {
  local word=\${COMP_WORDS[COMP_CWORD]} line
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :*) ;;
      *) line=\${line%%$'\\t'*}; [[ $line == "$word"* ]] && COMPREPLY+=("$line") ;;
    esac
  done < <("\${COMP_WORDS[0]}" __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _kipctl kipctl
`,
  zsh: `#compdef kipctl
# zsh completion for kipctl: source <(kipctl completion zsh)
_kipctl() {
  local line name
  local -a found
  while IFS= read -r line; do
    case $line in
      :*) ;;
      *$'\\t'*) name=\${line%%$'\\t'*}; found+=("\${name//:/\\\\:}:\${line#*$'\\t'}") ;;
      *) found+=("\${line//:/\\\\:}") ;;
    esac
  done < <("\${words[1]}" __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)
  _describe kipctl found
}
compdef _kipctl kipctl
`,
  fish: `# fish completion for kipctl: kipctl completion fish | source
function __kipctl_complete
  set -l words (commandline -opc) (commandline -ct)
  $words[1] __complete $words[2..-1] 2>/dev/null | string match -v -r '^:'
end
complete -c kipctl -f -a '(__kipctl_complete)'
`,
};
