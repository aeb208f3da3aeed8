/** Hours per month, as clouds define it for their prices. */
export const hoursPerMonth = 730;
