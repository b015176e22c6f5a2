"""`glomo doctor`."""

from __future__ import annotations

import dataclasses
from contextlib import suppress

from glomo_tf.commands.shared import Debug, Json, answering, import_tensorflow

EXAMPLES = """\
Examples:

\b
  glomo doctor
  glomo doctor --json
"""


def doctor(json: Json = False, debug: Debug = False) -> None:
    """Tell whether everything is in place.

    Looks at versions, devices, extras, presets and data.

    Ends with exit code 1 if something needed does not work; extras that are not installed are
    named with the command that installs them and are no failure.
    """
    with answering(json, debug) as answer:
        from glomo_tf import doctor as checks

        with suppress(Exception):  # If it fails, the checks say why.
            import_tensorflow()
        found = checks.examine()
        good = all(check.ok is not False for check in found)
        answer.data = {"ok": good, "checks": [dataclasses.asdict(check) for check in found]}
        answer.text = checks.report(found)
        answer.exit_code = 0 if good else 1
