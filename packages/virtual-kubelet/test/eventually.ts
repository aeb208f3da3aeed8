export { until } from "@kip/virtual-kubelet/testing";
