"""The smallest app: every public function of main.py answers at its own name."""


def run(name: str = "world"):
    print(f"greeting {name}")
    return {"greeting": f"Hello, {name}!"}
