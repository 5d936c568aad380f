"""Sees to it that replicas of one zygote do not draw the same random numbers, unless the app has asked for that.

A generator that the app has seeded at import continues from its state, as in every ordinary replica. One that got its
state from the system gets a new one. Which is which is noted while the app is imported.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import weakref

ENTROPY_BYTES = 16  # What numpy asks the system for.
TORCH_SEED_LEAST = 1 << 32  # A seed of torch's own choice has 53 bits; smaller ones are taken for the app's.
TORCH_DEFAULT_SEED = 67280421310721  # What a torch.Generator() that nobody has seeded has in every process.


class Randomness:
    """The generators of this process."""

    def __init__(self) -> None:
        self._unseeded: weakref.WeakSet = weakref.WeakSet([random._inst])
        self._entropy: set = set()  # What numpy got from the system, as numbers.
        self._numpy_seeded = None  # Whether the last numpy.random.seed() had a seed; None: it was not called.
        self._key = None  # With which processes of multiprocessing know each other.
        self._put_back: list = []  # (owner, name, value before, value now)
        self._state = None
        self._sequences: list = []
        self._bit_generators: list = []
        self._torch_generators: list = []

    def watch(self) -> None:
        """Notes from now on how generators get their state."""
        seed, setstate, urandom = random.Random.seed, random.Random.setstate, os.urandom

        def noting_seed(generator, a=None, *rest, **named):
            (self._unseeded.add if a is None else self._unseeded.discard)(generator)
            return seed(generator, a, *rest, **named)

        def noting_setstate(generator, state):
            self._unseeded.discard(generator)
            return setstate(generator, state)

        def noting_urandom(size):
            data = urandom(size)
            if size == ENTROPY_BYTES:
                self._entropy.add(int.from_bytes(data, "big"))
            return data

        self._replace(random.Random, "seed", noting_seed)
        self._replace(random.Random, "setstate", noting_setstate)
        self._replace(random, "seed", random._inst.seed)
        self._replace(random, "setstate", random._inst.setstate)
        self._replace(random, "_urandom", noting_urandom)
        sys.meta_path.insert(0, AfterImport("numpy.random.mtrand", self._note_numpy))
        sys.meta_path.insert(0, AfterImport("multiprocessing.process", self._note_key))

    def settle(self, folder: str) -> None:
        """Ends that, and finds the generators that are to be renewed. `folder` is the app's."""
        packages = [sys.modules[name] for name in ("numpy.random",) if name in sys.modules]  # It has names of its part.
        for owner, name, value, replaced in reversed(self._put_back):
            for holder in (owner, *packages):
                if vars(holder).get(name) is replaced:
                    setattr(holder, name, value)
        sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder) is not AfterImport]
        if random._inst not in self._unseeded:
            self._state = random.getstate()
        self._find_numpy()
        self._find_torch(folder)
        self._renew_ssl()  # The first use reads OpenSSL's configuration, which takes milliseconds.

    def renew(self) -> None:
        """In a replica: new state for all that got theirs from the system."""
        self._renew_ssl()
        for generator in list(self._unseeded):
            generator.seed()
        for sequence in self._sequences:
            sequence.__init__()
        for bits in self._bit_generators:
            bits.state = type(bits)(seed_sequence(bits)).state
        if self._numpy_seeded is False:
            sys.modules["numpy.random"].seed()
        for generator in self._torch_generators:
            generator.manual_seed(int.from_bytes(os.urandom(8), "big") >> 11)
        renew_uuid()
        process = sys.modules["multiprocessing.process"].current_process() if self._key else None
        if process is not None and process.authkey is self._key:  # Else the app has set one.
            process.authkey = os.urandom(32)

    def restore(self) -> None:
        """In the app's process: `random` was seeded by the fork, also where the app had done so."""
        if self._state is not None:
            random.setstate(self._state)

    def _renew_ssl(self) -> None:
        """OpenSSL sees a fork by itself; what it gets here is beside what it then gets from the system."""
        module = sys.modules.get("ssl")
        if module is not None:
            module.RAND_add(os.urandom(32), 32.0)

    def _replace(self, owner, name: str, value) -> None:
        self._put_back.append((owner, name, vars(owner)[name], value))
        setattr(owner, name, value)

    def _note_numpy(self, module) -> None:
        seed, set_state = module.seed, module.set_state

        def noting_seed(*given, **named):
            self._numpy_seeded = any(value is not None for value in (*given, *named.values()))
            return seed(*given, **named)

        def noting_set_state(*given, **named):
            self._numpy_seeded = True
            return set_state(*given, **named)

        self._replace(module, "seed", noting_seed)
        self._replace(module, "set_state", noting_set_state)

    def _note_key(self, module) -> None:
        self._key = module.current_process().authkey

    def _find_numpy(self) -> None:
        module = sys.modules.get("numpy.random.bit_generator")
        if module is None:
            return
        kinds = (module.SeedSequence, module.BitGenerator)
        # The type is asked, as isinstance() would ask the object, which may be a stand-in that loads something.
        found = [thing for thing in gc.get_objects() if issubclass(type(thing), kinds)]
        sequences = [thing for thing in found if isinstance(thing, module.SeedSequence)]
        self._sequences = [sequence for sequence in sequences if self._is_from_system(sequence)]
        bits = [thing for thing in found if isinstance(thing, module.BitGenerator)]
        self._bit_generators = [one for one in bits if self._is_from_system(seed_sequence(one))]

    def _is_from_system(self, sequence) -> bool:
        entropy = getattr(sequence, "entropy", None)
        return isinstance(entropy, int) and entropy in self._entropy

    def _find_torch(self, folder: str) -> None:
        torch = sys.modules.get("torch")
        kind = getattr(torch, "Generator", None)
        if kind is None:
            return
        found = [torch.default_generator]
        for module in list(sys.modules.values()):
            if (getattr(module, "__file__", None) or "").startswith(folder + os.sep):
                found += [thing for thing in list(vars(module).values()) if issubclass(type(thing), kind)]
        self._torch_generators = [one for one in found if is_torch_choice(one.initial_seed())]


def is_torch_choice(seed: int) -> bool:
    """Whether torch has drawn this seed itself."""
    return seed >= TORCH_SEED_LEAST and seed != TORCH_DEFAULT_SEED


def seed_sequence(bits):
    """What a bit generator of numpy got its state from; None after a seed() of the old kind."""
    return bits.seed_seq if hasattr(bits, "seed_seq") else getattr(bits, "_seed_seq", None)


def renew_uuid() -> None:
    """Makes `uuid` forget what it and the system's library remember of the last identifier."""
    module = sys.modules.get("uuid")
    if module is None:
        return
    # The library counts on from the last identifier of this process; siblings would count alike.
    module._generate_time_safe = None
    for name, value in (("_node", None), ("_last_timestamp", None), ("_last_timestamp_v6", None)):
        if hasattr(module, name):
            setattr(module, name, value)
    if hasattr(module, "_last_timestamp_v7"):
        module._last_timestamp_v7, module._last_counter_v7 = None, 0


class AfterImport:
    """A finder of modules that calls note(module) once the module `name` is loaded, before anybody uses it."""

    def __init__(self, name: str, note) -> None:
        self._name = name
        self._note = note

    def find_spec(self, name, path=None, target=None):
        """The spec that the other finders have for it."""
        if name != self._name:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is None:
                continue
            load = spec.loader.exec_module

            def load_and_note(module) -> None:
                load(module)
                self._note(module)

            spec.loader.exec_module = load_and_note
            return spec
        return None
