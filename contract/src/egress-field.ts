// The row of the field egressCidrs in the table of fields of an app.

/** What an app's replicas may reach outside the platform. */
export const egressField = {
  kind: "list",
  change: "replica",
  toml: "deployment.egress_cidrs",
  areRanges: true,
  lengthMin: 0,
  lengthMax: 64,
  isSingleAllowed: false,
  isUnique: false,
  default: null,
  defaultAbout: "the whole internet",
  about:
    "The only addresses outside the platform that replicas may reach; an empty list: none, and no name servers. Does not apply to builds.",
} as const;
