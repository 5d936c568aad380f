// The numbers of PostgreSQL's advisory locks. They may be any numbers that no other program uses on
// the same database. There is one more lock, for the chain of a project's audit log, whose number
// is a hash of the project's id (migrations/).

/** The holder migrates the database, while others wait. */
export const migrationLock = 7_070_001;
/** Lets platforms that start together on an empty database bootstrap one after the other. */
export const bootstrapLock = 7_070_002;
/** The holder is the one platform that works on the database. */
export const platformLock = 7_070_003;
/**
 * For changes of tokens of one kind. A hash of the kind is its second number, so it is another lock
 * than `platformLock`, which has one number only.
 */
export const tokenKindLock = 7_070_003;
