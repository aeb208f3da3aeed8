import path from "node:path";
import { watchOrPoll } from "@kip/base";

/** Calls back after each change of a file, and perhaps without one; also of one that a ConfigMap's volume replaces. */
export function watchFile(file: string, onChange: () => void): Disposable {
  return watchOrPoll(path.dirname(file), (name) => {
    // A volume of a ConfigMap exchanges the folder "..data", in which the file is.
    if (name === undefined || name === path.basename(file) || name.startsWith("..")) onChange();
  });
}
