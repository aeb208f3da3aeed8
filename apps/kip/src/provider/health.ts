import type { ProcessHealth } from "@kip/virtual-kubelet/command";

/** What this process is doing; it is ready also while another one runs the node. */
export class Health implements ProcessHealth {
  isReady = false;
  doing = "starting";

  change(doing: string, isReady: boolean): void {
    this.doing = doing;
    this.isReady = isReady;
  }
}
