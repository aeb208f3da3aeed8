/** A kubelet's reason and message for a pod that was active longer than its `activeDeadlineSeconds`. */
export const deadlineExceeded = {
  reason: "DeadlineExceeded",
  message: "Pod was active on the node longer than the specified deadline",
} as const;
