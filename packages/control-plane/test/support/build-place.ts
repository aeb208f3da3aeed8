import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ObtainOptions } from "@kip/control-plane";
import { temporaryFolder } from "@kip/testing";

/** A temporary cache, and a program that replaces Go and counts its builds. */
export async function temporaryPlace() {
  const folder = temporaryFolder();
  const directory = folder.path;
  const count = join(directory, "builds");
  await writeFile(count, "");
  const progress: string[] = [];
  /** A replacement for Go, with the behaviour that is needed here. */
  const fakeGo = async (name: string, build: string): Promise<string> => {
    const path = join(directory, name);
    await writeFile(
      path,
      `#!/bin/sh
if [ "$1" = list ]; then echo one; echo two; exit; fi
${build}
`,
      { mode: 0o755 },
    );
    return path;
  };
  const go = await fakeGo(
    "go",
    `for arg; do case "$arg" in -o=*) out="\${arg#-o=}";; esac; done
[ -n "$GOCACHE" ] && [ -d "$GOTMPDIR" ] || exit 9
echo built >> ${count}
programs="server kube-apiserver kube-controller-manager kube-scheduler kubectl coredns.local"
case "$*" in
  "test -c"*) programs=e2e.test ;;
  *sample-apiserver*) programs="agnhost nonewprivs sample-apiserver" ;;
esac
for name in $programs; do
  printf '#!/bin/sh\\nexit 0\\n' > "$out$name"; chmod +x "$out$name"
done`,
  );
  const options = {
    cacheDir: join(directory, "cache"),
    onProgress: (line: string) => void progress.push(line),
    modulesDir: directory,
    go,
  } satisfies ObtainOptions;
  await mkdir(options.cacheDir);
  return {
    options,
    progress,
    fakeGo,
    builds: async () => (await readFile(count, "utf8")).split("\n").length - 1,
    [Symbol.dispose]: () => folder.remove(),
  };
}
