/** A time in which a process may change a cloud, such as its turn as the leader of several. */
export interface ChangeTerm {
  /** Whether it goes on: to be asked right before a change is sent, each time that it is. */
  isHeld(): boolean;
}
