// Reads the value of a key in a map, and makes and stores it when it is missing. Stands in for
// `getOrInsertComputed`, which maps do not have in Node.js before 26.

type KeyedStore<Key, Value> = {
  get(key: Key): Value | undefined;
  has(key: Key): boolean;
  set(key: Key, value: Value): unknown;
};

/** Works on maps and weak maps. `make` is called when the key is missing, and must not throw. */
export function getOrInsert<Key, Value>(
  map: KeyedStore<Key, Value>,
  key: Key,
  make: () => NoInfer<Value>,
): Value {
  const existing = map.get(key);
  if (existing !== undefined || map.has(key)) return existing as Value;
  const created = make();
  map.set(key, created);
  return created;
}
