// What a map has for a key, made and kept when it is missing. The method of maps that does so,
// `getOrInsertComputed`, is missing in Node.js before 26.

type KeyedStore<Key, Value> = {
  get(key: Key): Value | undefined;
  has(key: Key): boolean;
  set(key: Key, value: Value): unknown;
};

/** Works on maps and weak maps. `make` is called when the key is missing, and may not throw. */
export function getOrInsert<Key, Value>(
  map: KeyedStore<Key, Value>,
  key: Key,
  make: () => NoInfer<Value>,
): Value {
  const found = map.get(key);
  if (found !== undefined || map.has(key)) return found as Value;
  const created = make();
  map.set(key, created);
  return created;
}
