"""How far and how an image is cloaked. Needs no NumPy."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class CloakSettings:
    """FedStyle names no settings of Mist; these are our choice, the budget and steps as usual for such attacks."""

    epsilon: int = 8  # budget: by how many grey levels a pixel's channel may change
    steps: int = 20  # signed-gradient steps
    reach: float = 2.5  # length of all steps together, in multiples of the budget
    seed: int = 0  # of the noise to start from, where there is no target

    def __post_init__(self) -> None:
        if not (isinstance(self.epsilon, int) and 0 <= self.epsilon <= 255):
            raise ValueError(f"epsilon is {self.epsilon}; it must be a whole number of grey levels, 0 to 255")
        for name in ("steps", "reach"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        if not self.seed >= 0:
            raise ValueError(f"seed is {self.seed}; it must be 0 or more")
