"""The right name for a misspelt one: one rule for all messages on unknown names and values."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 200
"""Characters of a text that is compared."""
_LETTERS_OF_AN_EDIT = 5
_MOST_EDITS = 2


def nearest(text: object, names: Iterable[object]) -> str:
    """Return the most similar name, upper and lower case apart; "" if none is so similar that it is surely meant.

    One letter may be wrong, missing, superfluous or exchanged with the next, and two in ten letters or more. In a word
    under five letters, a wrong one, or another first one, makes another word: `site` is not `size`, nor `text` `ext`.

    >>> nearest("retierd", ["READY", "RETIRED"])
    'RETIRED'
    """
    if not isinstance(text, str) or len(text) > LONGEST:
        return ""
    word = text.lower()
    lower = {str(name).lower(): str(name) for name in names}
    allowed = ((name, _allowed(word, name)) for name in lower)
    near = ((_edits(word, name), most, name) for name, most in allowed if abs(len(word) - len(name)) <= most)
    found = ((edits, len(name) == len(word), lower[name]) for edits, most, name in near if edits <= most)
    return min(found, default=(0, False, ""))[-1]  # a letter is rather missing than wrong


def _allowed(word: str, name: str) -> int:
    """Return how many edits may make a word of a name."""
    longest = max(len(word), len(name))
    if longest < _LETTERS_OF_AN_EDIT:
        return int(len(word) != len(name) and word[:1] == name[:1])
    return min(longest // _LETTERS_OF_AN_EDIT, _MOST_EDITS)


def _edits(one: str, other: str) -> int:
    """Return how many letters have to be changed, inserted, removed or exchanged with the next to make the other."""
    before: list[int] = []
    above: list[int] = []
    row: list[int] = [*range(len(other) + 1)]
    for i, letter in enumerate(one, 1):
        before, above, row = above, row, [i]
        for j, its in enumerate(other, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (letter != its)))
            if i > 1 and j > 1 and (letter, one[i - 2]) == (other[j - 2], its):
                row[j] = min(row[j], before[j - 2] + 1)
    return row[-1]


def did_you_mean(text: object, names: Iterable[object], *, quote: str = "") -> str:
    """Return "; did you mean X?", the end of a sentence, for the most similar name; "" if none is similar."""
    found = nearest(text, names)
    return f"; did you mean {quote}{found}{quote}?" if found else ""
