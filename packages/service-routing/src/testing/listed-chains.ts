/**
 * What nft prints for `list chains ip` of a kernel.
 *
 * @param tables the oldest first
 * @param hooked those of them that have a hook; default all
 */
export function listed(tables: readonly string[], hooked: readonly string[] = tables): string {
  const hook = "\tchain in {\n\t\ttype nat hook prerouting priority dstnat; policy accept;\n\t}\n";
  return tables
    .map((name) => {
      const chains = `\tchain refuse {\n\t}\n${hooked.includes(name) ? hook : ""}`;
      return `table ip ${name} {\n${chains}}\n`;
    })
    .join("");
}
