"""Which characters the installed fonts can draw, so that no picture holds empty boxes unsaid."""

from __future__ import annotations

import contextlib
import unicodedata
from typing import Any


class FontCover:
    """Picks fonts for a text and replaces what none of them has.

    It starts from DejaVu Sans, which comes with matplotlib, and looks through the installed fonts
    only when a character is missing there.

    Example:

    >>> from glomo_tf.viewer.fonts import FontCover
    >>> cover = FontCover()
    >>> cover.covered("word"), cover.families
    ('word', ['DejaVu Sans'])
    """

    SUBSTITUTE = "□"

    def __init__(self) -> None:
        self.families = ["DejaVu Sans"]
        self.missing: set[str] = set()
        self._known: dict[str, Any] = {}
        self._others: list[Any] | None = None

    def covered(self, text: str) -> str:
        """Returns the text with `□` for every character that no installed font has."""
        return "".join(
            character if self._has(character) else self._replaced(character) for character in text
        )

    def _replaced(self, character: str) -> str:
        # A mark without a font says nothing on its own; its base has been drawn.
        if unicodedata.category(character) in ("Mn", "Me", "Cf"):
            return ""
        self.missing.add(character)
        return self.SUBSTITUTE

    def _has(self, character: str) -> bool:
        code = ord(character)
        if any(code in self._characters(family) for family in self.families):
            return True
        for entry in self._installed():
            family = entry.name
            if family not in self.families and code in self._read(family, entry.fname):
                self.families.append(family)
                return True
        return False

    def _characters(self, family: str) -> Any:
        if family not in self._known:
            from matplotlib import font_manager

            properties = font_manager.FontProperties(family=[family])
            self._read(family, font_manager.findfont(properties))
        return self._known[family]

    def _read(self, family: str, path: str) -> Any:
        from matplotlib import ft2font

        if family not in self._known:
            try:
                self._known[family] = frozenset(ft2font.FT2Font(path).get_charmap())
            except (OSError, RuntimeError):
                # A broken font of the system is as good as none.
                self._known[family] = frozenset()
        return self._known[family]

    def _installed(self) -> list[Any]:
        if self._others is None:
            from matplotlib import font_manager

            # The list is cached on disk, so fonts installed since are read here.
            listed = {entry.fname for entry in font_manager.fontManager.ttflist}
            for path in font_manager.findSystemFonts():
                if path not in listed:
                    with contextlib.suppress(OSError, RuntimeError, KeyError):
                        font_manager.fontManager.addfont(path)
            regular = [
                entry
                for entry in font_manager.fontManager.ttflist
                if entry.style == "normal"
                and entry.weight in (400, "normal", "regular")
                # Bitmap colour fonts cannot be drawn by this renderer, and matplotlib's own last
                # resort draws a box for every character there is.
                and "color" not in entry.name.lower()
                and "last resort" not in entry.name.lower()
            ]
            # Sans serif first, then by name: the same machine always picks the same font.
            self._others = sorted(
                regular, key=lambda entry: ("sans" not in entry.name.lower(), entry.name)
            )
        return self._others
