"""The sentence on partitions that did not answer, for whatever was made of the answers of the others.

Each look at a crawl in partitions tells it here. Whoever makes a page, or an answer of the API, has it collected
meanwhile, so that none of them can leave it out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from budgetfrontier.tools.console.rendering import as_sentence

OF_OTHERS = "Lists, rates and curves are those of the others."
"""The sentence that follows where there are such."""


class MissingPartitions:
    """The most partitions that have not answered one look, and the sentence on them.

    Without any, it is on the age of figures that owners had published, or "".
    """

    def __init__(self) -> None:
        self.numbers: Collection[int] = ()
        self.sentence = ""
        self.rest = OF_OTHERS

    def __repr__(self) -> str:
        return f"<MissingPartitions {[*self.numbers]}>"

    def add(self, numbers: Collection[int], sentence: str, rest: str = OF_OTHERS) -> None:
        """Add those of a look; the longer sentence tells the ages of figures, too.

        `rest` is "" if there are no others.
        """
        if (len(numbers), len(sentence)) > (len(self.numbers), len(self.sentence)):
            self.numbers, self.sentence, self.rest = [*numbers], sentence, rest

    def told(self) -> str:
        """Return the sentence for people; "" if all partitions have answered."""
        return f"{as_sentence(self.sentence)} {self.rest if self.numbers else ''}".rstrip()


_collected: ContextVar[MissingPartitions | None] = ContextVar("missing_partitions", default=None)


@contextmanager
def collected() -> Iterator[MissingPartitions]:
    """Collect the partitions that do not answer what is read meanwhile in this thread."""
    found = MissingPartitions()
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def tell(numbers: Collection[int], sentence: str, rest: str = OF_OTHERS) -> None:
    """Tell whoever collects them the partitions that have not answered a look."""
    if (found := _collected.get()) is not None:
        found.add(numbers, sentence, rest)
