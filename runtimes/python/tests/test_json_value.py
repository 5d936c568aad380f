"""Results as JSON: useful types, numbers that JSON does not have, and errors that say where."""

import collections
import dataclasses
import datetime
import decimal
import enum
import http
import json
import pathlib
import random
import unittest
import uuid

import support  # noqa: F401  (puts the runtime on the path)
from slipway_cortex.json_value import Unserialisable, json_bytes, json_text


@dataclasses.dataclass
class Point:
    x: float
    when: datetime.date
    kind: "dataclasses.ClassVar[int]" = 5


class Colour(enum.Enum):
    RED = "red"


class Level(str, enum.Enum):
    HIGH = "high"


class Model:
    def model_dump(self):
        return {"inner": Point(1.0, datetime.date(2026, 1, 2))}


class Array:
    def tolist(self):
        return [1.0, float("nan")]


class Scalar:
    def item(self):
        return 7


def plain(value):
    return json.loads(json_bytes(json_text(value)).decode())


class JsonTest(unittest.TestCase):
    def test_is_compact_and_utf8(self):
        self.assertEqual(json_bytes(json_text({"a": [1, "\u00e4"]})), '{"a":[1,"\u00e4"]}'.encode())

    def test_writes_useful_types(self):
        identity = uuid.UUID(int=5)
        for value, expected in (
            (Point(1.5, datetime.date(2026, 1, 2)), {"x": 1.5, "when": "2026-01-02", "kind": 5}),
            (datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.timezone.utc), "2026-01-02T03:00:00+00:00"),
            (datetime.time(3, 4), "03:04:00"),
            (datetime.timedelta(minutes=1), 60.0),
            (identity, str(identity)),
            (decimal.Decimal("1.5"), 1.5),
            (decimal.Decimal("100000000000000000000"), 10**20),
            (decimal.Decimal("NaN"), None),
            (Colour.RED, "red"),
            (Level.HIGH, "high"),
            (http.HTTPStatus.OK, 200),
            ({3}, [3]),
            (frozenset(), []),
            ((1, (2,)), [1, [2]]),
            (collections.namedtuple("N", "a b")(1, 2), [1, 2]),
            (collections.deque([1]), [1]),
            (collections.OrderedDict(a=1), {"a": 1}),
            (collections.UserDict(a=1), {"a": 1}),
            (range(3), [0, 1, 2]),
            ({"a": 1}.keys(), ["a"]),
            (pathlib.PurePosixPath("/a/b"), "/a/b"),
            (Model(), {"inner": {"x": 1.0, "when": "2026-01-02", "kind": 5}}),
            (Array(), [1.0, None]),
            (Scalar(), 7),
            ({identity: 1, datetime.date(2026, 1, 2): 2, Colour.RED: 3, 4: 4, None: 5}, None),
        ):
            if expected is None and isinstance(value, dict):
                expected = {str(identity): 1, "2026-01-02": 2, "red": 3, "4": 4, "null": 5}
            self.assertEqual(plain(value), expected, value)
            self.assertEqual(plain({"in": [value]}), {"in": [expected]}, value)

    def test_writes_null_for_numbers_that_json_lacks(self):
        value = [float("nan"), float("inf"), -float("inf"), {"a": float("nan"), "b": 1.5}]
        self.assertEqual(plain(value), [None, None, None, {"a": None, "b": 1.5}])

    def test_says_what_cannot_be_written_and_where(self):
        loop = []
        loop.append(loop)
        deep = []
        for _ in range(100000):
            deep = [deep]
        for value, parts in (
            ({"items": [1, {"image": object()}]}, ("result.items[1].image", "object")),
            ({"raw": b"x"}, ("result.raw", "bytes", "base64")),
            ({"f": print}, ("result.f", "builtin_function_or_method")),
            ({"c": Point}, ("result.c", "type")),
            ({"a": {(1, 2): 3}}, ("result.a", "key", "tuple")),
            ({"z": 1j}, ("result.z", "complex")),
            (loop, ("contains itself",)),
            (deep, ("too deeply",)),
        ):
            with self.assertRaises(Unserialisable) as caught:
                json_text(value)
            for part in parts:
                self.assertIn(part, str(caught.exception))
            self.assertLess(len(str(caught.exception)), 400)
            self.assertTrue(caught.exception.__suppress_context__ or caught.exception.__context__ is None)
        while deep:
            deep = deep[0]  # Taken apart by hand: some versions of Python overflow the stack on it.

    def test_writes_lone_surrogates_as_escapes(self):
        for text in ("a\ud800b", "\\\udc80", "\u00e4\udfff\\"):
            self.assertEqual(plain({"t": text}), {"t": text})

    def test_agrees_with_the_standard_encoder_on_plain_values(self):
        chance = random.Random(13)

        def value(depth):
            kind = chance.randrange(8 if depth < 4 else 6)
            if kind < 6:
                return chance.choice(
                    [None, True, False, chance.randint(-(10**30), 10**30), chance.random(), "x\u20ac\n\0"]
                )
            if kind == 6:
                return [value(depth + 1) for _ in range(chance.randint(0, 4))]
            return {str(chance.random()): value(depth + 1) for _ in range(chance.randint(0, 4))}

        for _ in range(500):
            one = value(0)
            self.assertEqual(plain(one), one)
            # A set within takes the walk in Python; what is around it must come out the same.
            self.assertEqual(plain([one, {1}, float("nan")]), [one, [1], None])


if __name__ == "__main__":
    unittest.main()
