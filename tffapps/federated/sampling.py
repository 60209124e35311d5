"""Which clients play a round: all of them, or some that are drawn anew for every round.

The draw is a function of the run's seed and the round's number alone, so a run that goes on after a kill draws as one
that was never stopped.
"""

import dataclasses

import numpy as np

_DRAWS = 1  # a stream of its own: clients' data has those of `cohort.stream`


@dataclasses.dataclass(frozen=True)
class Sampling:
    """`per_round` of `clients` clients, without replacement; 0, or as many as there are: all."""

    clients: int
    per_round: int = 0
    seed: int = 0

    @property
    def cohort(self) -> int:
        """How many are asked in a round."""
        return min(self.per_round, self.clients) or self.clients

    def positions(self, number: int) -> list[int]:
        """Of the clients that are asked in a round, in order."""
        if self.cohort == self.clients:
            return list(range(self.clients))
        source = np.random.SeedSequence([self.seed, number], spawn_key=(_DRAWS,))
        return np.sort(np.random.default_rng(source).choice(self.clients, self.cohort, replace=False)).tolist()

    def most_rounds(self, number: int) -> int:
        """In how many of the rounds 1 … `number` the client was asked that was asked most often.

        Who knows the seed knows the draw, so no client is hidden by it: its privacy is spent in the rounds that it was
        asked in, and in no other.
        """
        if self.cohort == self.clients:
            return number
        asked = np.zeros(self.clients, np.int64)
        for each in range(1, number + 1):
            asked[self.positions(each)] += 1
        return int(asked.max())
