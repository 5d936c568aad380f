// The operator's pages, by name; for whoever has an operator's token.

/** Names and addresses. */
export const operatorPages = [
  ["Projects", "/operator"],
  ["Coupons", "/operator/coupons"],
  ["Tokens", "/operator/tokens"],
  ["People", "/operator/people"],
  ["Certificates", "/operator/certificates"],
  ["Platform", "/operator/platform"],
] as const;
