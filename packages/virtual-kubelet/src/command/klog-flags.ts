import type { Option } from "@kip/base";

/** klog's flags. The original passes them on as `--klog.*`, and its libraries use them without this prefix. */
export const klogOptions: readonly Option[] = [
  {
    flag: "klog.v",
    type: "string",
    help: "verbosity. 4 and more is debug, 8 and more is trace. Also -v",
  },
  {
    flag: "klog.logtostderr",
    type: "boolean",
    fallback: "true",
    help: "log to standard error instead of a file",
  },
  { flag: "klog.alsologtostderr", type: "boolean", help: "log to standard error and the file" },
  {
    flag: "klog.alsologtostderrthreshold",
    type: "string",
    fallback: "INFO",
    help: "lowest severity on standard error with --klog.alsologtostderr",
  },
  {
    flag: "klog.stderrthreshold",
    type: "string",
    fallback: "ERROR",
    help: "lowest severity on standard error while logging to a file",
  },
  { flag: "klog.log_file", type: "string", help: "log file" },
  {
    flag: "klog.log_dir",
    type: "string",
    help: "folder for virtual-kubelet.log, without --klog.log_file. Default: the folder for temporary files",
  },
  {
    flag: "klog.log_file_max_size",
    type: "string",
    fallback: "1800",
    help: "size in MB at which the log file is renamed to <file>.1. 0 means no limit",
  },
  { flag: "klog.skip_headers", type: "boolean", help: "write text logs without time and level" },
  {
    flag: "klog.vmodule",
    type: "string",
    hasNoEffect: true,
    help: "there are no Go files whose verbosity could differ. Use --klog.v",
  },
  {
    flag: "klog.log_backtrace_at",
    type: "string",
    hasNoEffect: true,
    help: "there are no Go files. Errors are logged with their stack",
  },
  {
    flag: "klog.add_dir_header",
    type: "boolean",
    hasNoEffect: true,
    help: "records do not name files",
  },
  {
    flag: "klog.one_output",
    type: "boolean",
    hasNoEffect: true,
    help: "there is one file for all severities",
  },
  {
    flag: "klog.skip_log_headers",
    type: "boolean",
    hasNoEffect: true,
    help: "files have no headers",
  },
  {
    flag: "klog.legacy_stderr_threshold_behavior",
    type: "boolean",
    hasNoEffect: true,
    help: "with --klog.logtostderr everything goes to standard error",
  },
];

const names = new Set(klogOptions.map(({ flag }) => flag.replace("klog.", "")));

/** Renames klog's flags to the names in the table. `-v=4`, `--logtostderr` and `--log-file=x` are also klog's. */
export function withKlogNames(args: readonly string[]): readonly string[] {
  return args.map((arg) => {
    const [, name = "", rest = ""] = /^--?(?:klog\.)?([\w-]+)(=.*)?$/s.exec(arg) ?? [];
    const known = name.replaceAll("-", "_");
    return names.has(known) ? `--klog.${known}${rest}` : arg;
  });
}
