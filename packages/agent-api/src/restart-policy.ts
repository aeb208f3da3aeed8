/** A container's own restart settings. If absent, the pod's policy applies. */
export interface OwnRestartPolicy {
  readonly restartPolicy?: string | undefined;
  /** Only used together with a policy of its own. The first matching rule applies. */
  readonly restartPolicyRules?:
    | readonly {
        readonly action: string;
        readonly exitCodes?:
          | { readonly operator: string; readonly values?: readonly number[] | undefined }
          | undefined;
      }[]
    | undefined;
}

/**
 * Whether a container that has ended is restarted, by the kubelet's rules. Its own rule for the exit code takes precedence over
 * its own policy, and that over the pod's. A completed init container is not restarted, whatever this returns.
 *
 * @param podPolicy the pod's `restartPolicy`
 * @see https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-restart-rules
 */
export function runsAgain(own: OwnRestartPolicy, podPolicy: string, exitCode: number): boolean {
  const { restartPolicy, restartPolicyRules = [] } = own;
  if (restartPolicy === undefined) return byPolicy(podPolicy, exitCode);
  const rule = restartPolicyRules.find(({ exitCodes }) => {
    const isListed = exitCodes?.values?.includes(exitCode) === true;
    if (exitCodes?.operator === "In") return isListed;
    return exitCodes?.operator === "NotIn" && !isListed;
  });
  return rule?.action === "Restart" || byPolicy(restartPolicy, exitCode);
}

/**
 * Whether a container that is killed because of a failed probe is restarted. Rules do not apply, because there is no exit code.
 */
export function runsAgainWhenKilled(own: OwnRestartPolicy, podPolicy: string): boolean {
  return (own.restartPolicy ?? podPolicy) !== "Never";
}

function byPolicy(policy: string, exitCode: number): boolean {
  if (policy === "Never") return false;
  return policy !== "OnFailure" || exitCode !== 0;
}
