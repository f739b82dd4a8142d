"""The choices that an example repeats, and types in the words of proposals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

Size: TypeAlias = int | str
Shape: TypeAlias = tuple[Size, ...]


@dataclass(frozen=True)
class Sketch:
    """A tensor's shape, symbolic dimensions by name, and dtype."""

    shape: Shape
    dtype: str


Known: TypeAlias = "Sketch | tuple[Sketch, ...]"
Proposal: TypeAlias = "tuple[list[Known], dict[str, Any]]"


@dataclass
class Mood:
    """The choices that an example repeats.

    Parameters
    ----------
    random : Random
    dtype : str
    extents : tuple of int or str
        What dimensions are drawn from.

    Attributes
    ----------
    given : mapping
        Attributes that the rule gives to the operator at hand.
    plain : bool
        Nothing is broadcast.
    """

    random: Random
    dtype: str
    extents: tuple[Size, ...]
    given: Mapping[str, Any] = field(init=False, default_factory=dict)
    plain: bool = field(init=False)
    rank: int = field(init=False)
    axis: int = field(init=False)
    kept: dict[str, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.plain = self.chance(0.35)
        self.rank = self.random.choice((1, 2, 2, 3, 3, 4))
        self.axis = self.random.choice((-1, 0, 1, -2, 2))

    def extent(self) -> Size:
        """Draw a dimension."""
        return self.random.choice(self.extents)

    def number(self, most: int = 4) -> int:
        """Draw a dimension that is a number and not zero."""
        return self.random.choice([e for e in self.extents if isinstance(e, int) and e] or [most])

    def shape(self, rank: int | None = None) -> Shape:
        """Draw a shape."""
        return tuple(self.extent() for _ in range(self.rank if rank is None else rank))

    def chance(self, share: float) -> bool:
        """Draw whether something happens."""
        return self.random.random() < share

    def again(self, what: str, draw: Callable[[], Any], share: float = 0.85) -> Any:
        """Draw what the example mostly repeats."""
        if what not in self.kept or not self.chance(share):
            value = draw()
            self.kept.setdefault(what, value)
            return value
        return self.kept[what]

    def axis_of(self, rank: int) -> int:
        """Draw an axis, mostly the example's; it may be counted from the end."""
        if -rank <= self.axis < rank and self.chance(0.8):
            return self.axis
        return self.random.randrange(-rank, rank) if rank else 0
