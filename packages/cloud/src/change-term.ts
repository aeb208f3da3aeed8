/** A period in which a process may change a cloud, such as its term as the leader of several processes. */
export interface ChangeTerm {
  /** Whether the term still lasts. Call this right before each change is sent. */
  isHeld(): boolean;
}
