import { spawn } from "node:child_process";
import { constants } from "node:os";
import { isSystemError } from "@kip/base";
import type { CommandContext } from "../cli/command.ts";
import { KipctlError } from "../errors.ts";
import { currentNamespace, podPath } from "./get-pod.ts";

/** Runs kubectl for a pod, with this terminal and the same cluster. Resolves with its exit code. */
export async function runKubectl(
  context: CommandContext,
  command: {
    readonly verb: "exec" | "attach";
    readonly pod: string;
    readonly flags: readonly string[];
    readonly rest: readonly string[];
  },
): Promise<number> {
  const { options } = context;
  const { namespace, name } = podPath(command.pod, await currentNamespace(context));
  const cluster = ["kubeconfig", "context"].flatMap((flag) => {
    const value = options.text(flag);
    return value === undefined ? [] : [`--${flag}=${value}`];
  });
  const { verb, flags, rest } = command;
  const words = rest.length === 0 ? [] : ["--", ...rest];
  const args = [...cluster, `--namespace=${namespace}`, verb, `pod/${name}`, ...flags, ...words];
  return await runChild(options.required("kubectl"), args, context.signal);
}

async function runChild(
  program: string,
  args: readonly string[],
  signal: AbortSignal,
): Promise<number> {
  const child = spawn(program, args, { stdio: "inherit" });
  // kubectl gets the signals of the shared terminal. Others have to be passed on.
  const end = (): void => void child.kill("SIGTERM");
  signal.addEventListener("abort", end, { once: true });
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once("error", (cause) => reject(startFailure(program, cause)));
      child.once("exit", (code, killed) =>
        resolve(code ?? 128 + constants.signals[killed ?? "SIGTERM"]),
      );
    });
  } finally {
    signal.removeEventListener("abort", end);
  }
}

function startFailure(program: string, cause: Error): KipctlError {
  const why = isSystemError(cause, "ENOENT") ? "there is no such program" : cause.message;
  return new KipctlError("KUBECTL_MISSING", `Cannot run ${program}: ${why}`, {
    remedy:
      "exec and attach need kubectl: put it on the PATH, or name it with --kubectl or KIPCTL_KUBECTL",
  });
}
