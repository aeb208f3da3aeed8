import path from "node:path";
import { watchOrPoll } from "@kip/base";

/**
 * Calls back after each change of a file, and sometimes without a change. Also follows files that a ConfigMap's volume
 * replaces.
 */
export function watchFile(file: string, onChange: () => void): Disposable {
  return watchOrPoll(path.dirname(file), (name) => {
    // A ConfigMap's volume replaces the folder "..data", which contains the file.
    if (name === undefined || name === path.basename(file) || name.startsWith("..")) onChange();
  });
}
