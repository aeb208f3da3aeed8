/** QEMU's word for it as a sentence. */
export function describeEnd(reason: string | undefined): string {
  switch (reason) {
    case "guest-shutdown":
      return "The machine switched itself off";
    case "guest-reset":
      return "The machine restarted or its kernel stopped";
    case "guest-panic":
      return "The machine's kernel stopped";
    case "host-signal":
    case "host-qmp-quit":
      return "The machine was ended from outside";
    default:
      return "The machine's process ended";
  }
}
