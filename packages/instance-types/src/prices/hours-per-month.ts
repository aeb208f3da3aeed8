/** How many hours a month has in clouds' own prices. */
export const hoursPerMonth = 730;
