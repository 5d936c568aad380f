// The numbers of PostgreSQL's advisory locks: any fixed ones that no other program uses on the same
// database. The chain of a project's audit log is locked by a hash of the project's id, which has
// 64 bits (migrations/).

/** The holder migrates, others wait. */
export const migrationLock = 7_070_001;
/** Platforms that start together on one empty database bootstrap one after the other. */
export const bootstrapLock = 7_070_002;
/** The holder runs the apps of the database. */
export const platformLock = 7_070_003;
/**
 * With a hash of the kind as second number, which makes it another lock than the one above: changes
 * of tokens of one kind.
 */
export const tokenKindLock = 7_070_003;
