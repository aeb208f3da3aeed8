import type { ProcessHealth } from "@kip/virtual-kubelet/command";

/** The state of this process. It is also ready while another replica runs the node. */
export class Health implements ProcessHealth {
  isReady = false;
  doing = "starting";

  change(doing: string, isReady: boolean): void {
    this.doing = doing;
    this.isReady = isReady;
  }
}
