"""Make or check requirements.lock: `python .ci/lock.py make [args of uv]` or `… check`.

The lock holds exact versions with hashes for every extra but `gpu`, for all supported Pythons and
platforms, and no addresses. Its first line carries a digest of what pyproject.toml asks for, so
that `check` needs no network.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
EXTRAS = ("all", "dev")


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def digest() -> str:
    """SHA-256 of the dependency tables of pyproject.toml."""
    table = project()
    asked = [table["requires-python"], table["dependencies"], table["optional-dependencies"]]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def asked_for() -> list[Requirement]:
    """Requirements of the core install and of the locked extras, `glomo-tf[…]` itself resolved."""
    table = project()
    found = [Requirement(line) for line in table["dependencies"]]
    pending, seen = list(EXTRAS), set()
    while pending:
        extra = pending.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for line in table["optional-dependencies"][extra]:
            requirement = Requirement(line)
            if canonicalize_name(requirement.name) == table["name"]:
                pending.extend(requirement.extras)
            else:
                found.append(requirement)
    return found


def locked(text: str) -> dict[str, list[Version]]:
    """Versions by canonical name; several where they differ between Pythons or platforms."""
    versions: dict[str, list[Version]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", text, re.M):
        versions.setdefault(canonicalize_name(name), []).append(Version(version))
    return versions


def problems(text: str) -> list[str]:
    """What is wrong with the text of a lock, one line each; empty if nothing is."""
    found = []
    if f"sha256:{digest()}" not in text.split("\n", 1)[0]:
        found.append(
            "requirements.lock is older than the dependencies in pyproject.toml: run `make lock`"
        )
    if re.search(
        r"://|file:|^\s*-(?!-hash)|@ ", re.sub(r"^\s+--hash=\S+", "", text, flags=re.M), re.M
    ):
        found.append(
            "requirements.lock holds an address or an option; it may hold versions and hashes only"
        )
    versions = locked(text)
    for requirement in asked_for():
        got = versions.get(canonicalize_name(requirement.name), [])
        if not got or not all(requirement.specifier.contains(v, prereleases=True) for v in got):
            found.append(
                f"pyproject.toml asks for {requirement}; the lock has {list(map(str, got))}"
            )
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    bare = [line for line in lines if "==" in line and "--hash=sha256:" not in line]
    found += [f"no hash in requirements.lock for: {line}" for line in bare]
    return found


def make(arguments: list[str]) -> str:
    command = ["pip", "compile", "pyproject.toml", "--quiet", "--universal", "--generate-hashes"]
    command += ["--no-annotate", "--no-header", "--python-version", "3.11"]
    command += [
        "--fork-strategy",
        "fewest",
        *arguments,
    ]  # One version for all Pythons where it exists.
    for extra in EXTRAS:
        command += ["--extra", extra]
    if LOCK.exists():  # Versions stay where they are unless `--upgrade` is among the arguments.
        command += ["--output-file", str(LOCK)]
    done = subprocess.run(
        [sys.executable, "-m", "uv", *command], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return (
        f"# Made by `make lock` from pyproject.toml, whose dependencies are sha256:{digest()}\n"
        + done.stdout
    )


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["make"]:
        text = make(arguments[1:])
        LOCK.write_text(text)
    elif arguments == ["check"]:
        text = LOCK.read_text()
    else:
        print(__doc__)
        return 2
    found = problems(text)
    print(
        "\n".join(found)
        or f"requirements.lock: {len(locked(text))} packages, in step with pyproject.toml"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
