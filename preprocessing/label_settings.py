"""How a patch gets its class from what is marked on its slide; nothing heavy is imported here."""

from __future__ import annotations

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class LabelRule:
    """A patch is tumour where enough of it is marked as such, normal where none is, and else left out."""

    tumour: tuple[str, ...]  # groups of ASAP, or classes of masks
    without: tuple[str, ...] = ()  # what is cut out of these again
    share: float = 0.5  # of the patch
    marked_only: bool = False  # normal is what is marked as something else, not what is not marked
    specimen: str = ""  # of a slide's name: what its first group matches is the same piece of tissue

    def __post_init__(self) -> None:
        if not self.tumour:
            raise ValueError("--tumour: name at least one class")
        if not 0 < self.share <= 1:
            raise ValueError(f"--share {self.share:g}: a share is above 0 and at most 1")
        try:
            groups = re.compile(self.specimen).groups
        except re.error as error:
            raise ValueError(f"--specimen {self.specimen}: not a regular expression ({error})") from None
        if self.specimen and groups < 1:
            raise ValueError(f"--specimen {self.specimen}: put what names the specimen in brackets, such as '_(\\d+)_'")

    def specimen_of(self, slide: str) -> str:
        """By which patches are kept on one side of a split, whatever scanner they are from."""
        found = re.search(self.specimen, slide) if self.specimen else None
        return found.group(1) or slide if found else slide
