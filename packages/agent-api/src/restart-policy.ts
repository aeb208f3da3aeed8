/** What a container has to say itself about its restarts; absent: the pod's policy counts. */
export interface OwnRestartPolicy {
  readonly restartPolicy?: string | undefined;
  /** Looked at only together with a policy of its own; the first that matches counts. */
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
 * Whether a container that has ended runs again, by the kubelet's rules: a rule of its own that matches the exit code,
 * else its own policy, else the pod's. An init container that has completed does not, whatever this says.
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

/** Whether a container runs again that is killed for a failed probe: there is no exit code that rules could look at. */
export function runsAgainWhenKilled(own: OwnRestartPolicy, podPolicy: string): boolean {
  return (own.restartPolicy ?? podPolicy) !== "Never";
}

function byPolicy(policy: string, exitCode: number): boolean {
  if (policy === "Never") return false;
  return policy !== "OnFailure" || exitCode !== 0;
}
