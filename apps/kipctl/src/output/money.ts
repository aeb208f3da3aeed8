/** US dollars with at least two decimals, and more for small amounts: `$0.0052`, `$12.50`. */
export function dollars(amount: number): string {
  return `$${amount.toFixed(6).replace(/(\.\d{2,}?)0+$/, "$1")}`;
}

/** US dollars, rounded to cents. Less than a cent is printed like {@link dollars}. */
export function cents(amount: number): string {
  return amount > 0 && amount < 0.01 ? dollars(amount) : `$${amount.toFixed(2)}`;
}
